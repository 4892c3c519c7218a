#!/usr/bin/env bash
# What scripts/demo and scripts/test show of a build: on a terminal one line that counts, elsewhere nothing; and all of it if it fails.
#   counting.sh
set -euo pipefail

common=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts" && pwd)/common.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "failed: $*" >&2
  exit 1
}

cat >"$folder/run" <<END
source "$common"
tput() { echo 30; }
ninja_build() { printf '[%s] Building a file with a long name\n' 1/12 2/12; return "\$1"; }
make_build() { printf '[ 50%%] Building it\nScanning\n[100%%] Built\n'; }
warned() { echo '[1/1] Building'; echo 'a.cpp:1: warning: odd'; }
"\$@"
END
# run ARGUMENTS...: without a terminal
run() { bash "$folder/run" "$@" 2>&1; }
# shown ARGUMENTS...: on a terminal, its control characters made visible
shown() { script -qec "bash $folder/run $*" /dev/null </dev/null | tr '\r\033\n' '^@|'; }

[ -z "$(run counting ninja_build 0)" ] || fail "it is not quiet without a terminal"
status=0
output=$(run counting ninja_build 3) || status=$?
[ "$status" -eq 3 ] || fail "the exit code of the build is $status"
[ "$(grep -c Building <<<"$output")" -eq 2 ] || fail "a failed build shows: $output"
run counting warned | grep -q 'warning: odd' || fail "a warning is kept to itself"

command -v script >/dev/null || { echo "passed, but for terminals: there is no program script here"; exit; }
output=$(shown counting ninja_build 0)
[ "$output" = '^[1/12] Building a file with a@[K^[2/12] Building a file with a@[K^@[K' ] || fail "with ninja a terminal shows: $output"
output=$(shown counting make_build)
[ "$output" = '^[ 50%] Building it@[K^[100%] Built@[K^@[K' ] || fail "with make a terminal shows: $output"
status=0
output=$(shown counting ninja_build 3) || status=$?
[ "$status" -eq 3 ] || fail "the exit code of the build on a terminal is $status"
[[ $output == *'@[K[1/12] Building a file with a long name^|'* ]] || fail "a failed build on a terminal shows: $output"
echo passed
