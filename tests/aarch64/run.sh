#!/usr/bin/env bash
# Builds the engine and its tests for AArch64 and runs them under qemu: see CMakeLists.txt beside this file.
#   tests/aarch64/run.sh [BUILD_FOLDER]     build/aarch64 if none is given
# Exits with 77 if a tool is missing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_dir=$(cd "$here/../.." && pwd)
build_dir=${1:-$source_dir/build/aarch64}
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}

skip() {
  echo "skipped: $1 (on Debian or Ubuntu: apt-get install g++-aarch64-linux-gnu qemu-user)"
  exit 77
}

command -v aarch64-linux-gnu-g++ >/dev/null || skip "there is no aarch64-linux-gnu-g++"
command -v qemu-aarch64 >/dev/null || command -v qemu-aarch64-static >/dev/null || skip "there is no qemu-aarch64"

generator=()
if [ ! -e "$build_dir/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
# The kernels are compiled with -O3 all the same, and the tests with -O1 in less time than they would save.
cmake -S "$here" -B "$build_dir" ${generator[@]+"${generator[@]}"} --toolchain "$source_dir/cmake/aarch64-linux-gnu.cmake" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1
cmake --build "$build_dir" --parallel "$jobs"
unset HEED_ISA # if it is set, it names an instruction set of the host
ctest --test-dir "$build_dir" --no-tests=error --output-on-failure --parallel "$jobs"
