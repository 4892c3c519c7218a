#!/usr/bin/env bash
# Uses Heed in every way that a user's project may: installed and then moved, through find_package and pkg-config;
# built within another project, through add_subdirectory and FetchContent.
#   tests/package/run.sh          needs cmake, a C++20 compiler, pkg-config and Heed's own dependencies
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_dir=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
generator=()
if command -v ninja >/dev/null; then generator=(-G Ninja); fi

quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; echo "failed: $*"; return 1; }; }

in_release() { cmake -S "$1" -B "$2" ${generator[@]+"${generator[@]}"} -DCMAKE_BUILD_TYPE=Release "${@:3}"; }

configure() { quietly in_release "$@"; }

# check_programs FOLDER: both programs run and say what they should.
check_programs() {
  (cd "$work" && [ "$("$1/with_all")" = "heed $version" ]) && check_attention "$1"
}
check_attention() { (cd "$work" && [ "$("$1/with_attention")" = "  1 1.5   2" ]); }

version=$(sed -n 's/^project(heed VERSION \([0-9.]*\).*/\1/p' "$source_dir/CMakeLists.txt")
weakest=baseline
case $(uname -m) in aarch64 | arm64) weakest=neon ;; esac
# The consumers stand outside the checkout, so that nothing is found by being near it.
cp -r "$here/consumer" "$here/embedded" "$work"

echo "install, move, remove the build"
configure "$source_dir" "$work/build" -DHEED_WARNINGS_AS_ERRORS=ON -DHEED_BUILD_TESTS=OFF -DHEED_BUILD_BENCHMARKS=OFF -DHEED_BUILD_EXAMPLES=OFF
quietly cmake --build "$work/build" --parallel "$jobs"
quietly cmake --install "$work/build" --prefix "$work/first"
mv "$work/first" "$work/moved"
rm -rf "$work/build"
if grep -rlF -e "$work" -e "$source_dir" "$work/moved"; then
  echo "these installed files hold a path of the machine that built them"
  exit 1
fi
# CMake makes one header more: what HEED_EXPORT is.
if [ "$(cd "$source_dir/include" && { find heed -type f; echo heed/core/export.hpp; } | sort)" != \
     "$(cd "$work/moved/include" && find heed -type f | sort)" ]; then
  echo "the installed headers are not those of the source"
  exit 1
fi

echo "find_package"
configure "$work/consumer" "$work/found" -DCMAKE_PREFIX_PATH="$work/moved"
quietly cmake --build "$work/found" --parallel "$jobs"
check_programs "$work/found"

echo "find_package of the engine alone, without utf8proc"
mkdir "$work/engine"
cp "$work/consumer/with_attention.cpp" "$work/engine"
cat >"$work/engine/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(engine LANGUAGES CXX)
find_package(heed REQUIRED COMPONENTS attention)
add_executable(with_attention with_attention.cpp)
target_link_libraries(with_attention PRIVATE heed::attention)
END
configure "$work/engine" "$work/engine/build" -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_DISABLE_FIND_PACKAGE_utf8proc=ON
quietly cmake --build "$work/engine/build"
check_attention "$work/engine/build"

echo "find_package with a version that does not fit"
sed 's/find_package(heed REQUIRED)/find_package(heed 99 REQUIRED)/' "$work/consumer/CMakeLists.txt" >"$work/CMakeLists.txt"
mkdir "$work/future"
mv "$work/CMakeLists.txt" "$work/future"
if in_release "$work/future" "$work/future/build" -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" 2>&1 ||
   ! grep -q 'version: 0' "$work/log"; then
  cat "$work/log"
  echo "version 99 should not have been found"
  exit 1
fi

echo "pkg-config"
pc=$(find "$work/moved" -name heed.pc)
mkdir "$work/compiled"
by_pkg_config() { # PROGRAM PACKAGE
  # shellcheck disable=SC2046  # the flags are words
  quietly "${CXX:-c++}" -std=c++20 "$work/consumer/$1.cpp" -o "$work/compiled/$1" \
    $(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs "$2")
}
by_pkg_config with_all heed
by_pkg_config with_attention heed-attention
check_programs "$work/compiled"
if PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --libs heed-attention | grep -qE 'utf8proc|-lheed( |$)'; then
  echo "the engine alone is linked with more than itself"
  exit 1
fi

echo "add_subdirectory, as shared libraries, all that is not marked hidden, with -ffast-math"
configure "$work/embedded" "$work/shared" -DHEED_SOURCE="$source_dir" -DHEED_BY_FETCH=OFF -DHEED_EVERY_CALL=ON -DHEED_INSTALL=ON \
  -DBUILD_SHARED_LIBS=ON -DCMAKE_CXX_VISIBILITY_PRESET=hidden -DCMAKE_VISIBILITY_INLINES_HIDDEN=ON -DCMAKE_CXX_FLAGS=-ffast-math
quietly cmake --build "$work/shared" --parallel "$jobs"
check_programs "$work/shared"
quietly cmake -DPROGRAM="$work/shared/every_call" -DEXPECTED="$source_dir/tests/data/every_call.txt" -DFOLDER="$work/files" \
  -P "$source_dir/tests/laws/same_text.cmake"
quietly cmake --install "$work/shared" --prefix "$work/first"
mv "$work/first" "$work/moved_shared"
rm -rf "$work/shared"
libheed=$(find "$work/moved_shared" -name 'libheed.so.*.*.*')
quietly cmake -DNM=nm -DOBJDUMP=objdump -DINCLUDE="$source_dir/include" -DOBJECTS=0 \
  -DLIBRARIES="$libheed,$(find "$work/moved_shared" -name 'libheed_attention.so.*.*.*')" -P "$source_dir/tests/house/library_symbols.cmake"
if [ -z "$(ldd "$libheed" | grep -F "$(dirname "$libheed")/libheed_attention.so.")" ]; then
  ldd "$libheed"
  echo "an installed libheed.so does not find the libheed_attention.so beside it"
  exit 1
fi
configure "$work/consumer" "$work/found_shared" -DCMAKE_PREFIX_PATH="$work/moved_shared"
quietly cmake --build "$work/found_shared" --parallel "$jobs"
check_programs "$work/found_shared"

echo "FetchContent"
# The engine alone is built, which is all that its program asks for; and of it one instruction set.
configure "$work/embedded" "$work/within" -DHEED_SOURCE="$source_dir" -DHEED_BY_FETCH=ON -DHEED_ISAS="$weakest"
quietly cmake --build "$work/within" --parallel "$jobs" --target with_attention
check_attention "$work/within"
# A part of another project adds nothing to what that project installs.
quietly cmake --install "$work/within" --prefix "$work/prefix"
if [ -n "$(find "$work/prefix" -type f 2>/dev/null)" ]; then
  echo "installing the other project installed parts of Heed"
  exit 1
fi

echo "an instruction set that is none"
if in_release "$work/embedded" "$work/unknown" -DHEED_SOURCE="$source_dir" -DHEED_BY_FETCH=OFF -DHEED_ISAS=avx3 >"$work/log" 2>&1 ||
   ! grep -q 'HEED_ISAS has "avx3", Heed knows for' "$work/log"; then
  cat "$work/log"
  echo "HEED_ISAS=avx3 should have been refused"
  exit 1
fi
echo "all ways work"
