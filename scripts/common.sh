# Sourced by the scripts beside it: packages, configuring and building. Bash.
set -euo pipefail

heed_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The names are the same in Debian 12, Debian 13 and Ubuntu 24.04.
packages_compile=(g++ cmake ninja-build libeigen3-dev nlohmann-json3-dev libutf8proc-dev libcli11-dev)
packages_tests=(catch2)
packages_tests_optional=(libtbb-dev valgrind) # tests are left out without them
packages_benchmarks=(libbenchmark-dev)

say() { printf '==> %s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# quietly COMMAND...: shows the command's output only if it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  if [ "$status" -ne 0 ]; then
    cat "$log" >&2
  fi
  rm -f "$log"
  return "$status"
}

# counting COMMAND...: a build, of which a terminal sees one line that counts: "[12/198] Building ..." with ninja, "[  6%] ..." with
# make. Elsewhere it is quiet. What it said is shown if it fails, or if a compiler warned.
counting() {
  local log line width status=0
  log=$(mktemp)
  if [ -t 2 ]; then
    width=$(tput cols 2>/dev/null) || width=80
    NINJA_STATUS='[%f/%t] ' "$@" 2>&1 | while IFS= read -r line; do
      printf '%s\n' "$line" >>"$log"
      if [[ $line == '['* ]]; then printf '\r%s\e[K' "${line:0:width-1}" >&2; fi
    done || status=$?
    printf '\r\e[K' >&2
  else
    "$@" >"$log" 2>&1 || status=$?
  fi
  if [ "$status" -ne 0 ] || grep -q 'warning:' "$log"; then cat "$log" >&2; fi
  rm -f "$log"
  return "$status"
}

has_apt() { command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

# apt_get WORDS...: apt-get without questions, waiting for its lock if another one runs.
apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"; }

# ensure_packages NAMES...: installs what is missing, and does not touch apt if nothing is.
ensure_packages() {
  if ! has_apt; then
    if command -v cmake >/dev/null && command -v "${CXX:-c++}" >/dev/null; then
      say "No apt-get here: using what is installed (on Debian it would be: $*)"
      return
    fi
    die "this system has no apt-get, and CMake or a C++ compiler is missing. Install the equivalents of: $*"
  fi
  local missing=() package
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    die "these packages are missing, and without root or sudo they cannot be installed from here. As root, run:
  apt-get install --no-install-recommends ${missing[*]}"
  fi
  say "Installing with apt-get: ${missing[*]}"
  # A broken third-party source must not stop what the others can deliver: the install decides.
  quietly apt_get update || say "apt-get update failed, trying to install all the same"
  quietly apt_get install --no-install-recommends "${missing[@]}" || die "apt-get could not install: ${missing[*]}"
}

# offer_packages NAMES...: installs what is missing and can be had; says so and goes on if not.
offer_packages() {
  has_apt || return 0
  local package
  for package in "$@"; do
    is_installed "$package" && continue
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
      say "$package is not installed, going on without it"
    else
      say "Installing with apt-get: $package"
      quietly apt_get install --no-install-recommends "$package" 2>/dev/null ||
        say "$package cannot be installed, going on without it"
    fi
  done
}

num_jobs() { echo "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"; }

# on_if_installed PACKAGE: ON or OFF. Without apt CMake finds out by itself.
on_if_installed() { if ! has_apt || is_installed "$1"; then echo ON; else echo OFF; fi; }

cached() { sed -n "s/^$2:[A-Z]*=//p" "$1/CMakeCache.txt"; }

# is_reusable FOLDER: whether a build folder belongs to this checkout and to a generator that still works here.
is_reusable() {
  [ "$(cached "$1" CMAKE_HOME_DIRECTORY)" -ef "$heed_root" ] && [ -x "$(cached "$1" CMAKE_CXX_COMPILER)" ] || return 1
  case "$(cached "$1" CMAKE_GENERATOR)" in
    Ninja) command -v ninja >/dev/null ;;
    'Unix Makefiles') command -v make >/dev/null ;;
    *) return 1 ;;
  esac
}

# configure PRESET OPTIONS...: build/PRESET, with ninja if it is there, else make.
configure() {
  local preset=$1 folder=$heed_root/build/$1 generator=()
  shift
  if [ -e "$folder/CMakeCache.txt" ] && ! is_reusable "$folder"; then
    rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
  fi
  if [ ! -e "$folder/CMakeCache.txt" ]; then
    if command -v ninja >/dev/null; then generator=(-G Ninja); else generator=(-G 'Unix Makefiles'); fi
  fi
  (cd "$heed_root" && cmake --preset "$preset" ${generator[@]+"${generator[@]}"} "$@")
}

# build PRESET TARGETS...: these targets, or everything.
build() {
  local folder=$heed_root/build/$1
  shift
  cmake --build "$folder" --parallel "$(num_jobs)" ${1:+--target "$@"}
}

# build_program PRESET TARGET FILE OPTIONS...: one program, that becomes build/PRESET/FILE.
build_program() {
  local preset=$1 target=$2 file=$3
  shift 3
  if [ ! -e "$heed_root/build/$preset/$file" ]; then
    say "Building $target (the first time takes a minute or two)"
  fi
  quietly configure "$preset" "$@" || die "CMake could not configure build/$preset"
  counting build "$preset" "$target" || die "$target could not be built"
}

# best_isa: that of HEED_ISAS which this processor runs fastest; nothing if it cannot be told.
best_isa() {
  local flags=" $(sed -n '/^flags/{s/.*: //p;q}' /proc/cpuinfo 2>/dev/null) " flag
  case "$(uname -m)" in x86_64 | amd64) ;; *) return 0 ;; esac
  [ "$flags" != "  " ] || return 0
  for flag in avx2 fma f16c; do
    [[ $flags == *" $flag "* ]] || { echo baseline; return; }
  done
  for flag in avx512f avx512bw avx512dq avx512vl; do
    [[ $flags == *" $flag "* ]] || { echo avx2; return; }
  done
  echo avx512
}
