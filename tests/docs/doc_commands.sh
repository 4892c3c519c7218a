#!/usr/bin/env bash
# Runs the commands that README.md and docs/*.md show, in the checkout, with a home folder of their own.
#   doc_commands.sh DOC_PROGRAM      after a build of the tests: some of the commands run what was built
set -euo pipefail

program=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
HOME=$(mktemp -d)
export HOME
trap 'rm -rf "$HOME"' EXIT

# Not here: what takes a stage of its own; what times something, and fails rightly where other programs run beside it
# (scripts/bench --help stands for it); and what needs the libraries that it measures.
others=("scripts/test" "scripts/bench --quick" "scripts/bench --peers" "scripts/bench --peers --threads 2" "scripts/bench --peers --quick"
  "scripts/bench --peers --json ~/peers.json --svg ~/peers.svg")

# What the pages say that the reader has: the first program, and a text of his own.
awk '/^```/ { if (inside) exit; inside = 1; next } inside' README.md >~/first.cpp
for _ in $(seq 40); do echo "Dear friend, the sea is calm tonight. Yours, as ever"; done >~/letters.txt

commands=$HOME/commands
for page in README.md docs/*.md; do "$program" commands "$page"; done >"$commands"
for other in "${others[@]}"; do
  grep -qxF -- "$other" "$commands" || { echo "no page shows: $other"; exit 1; }
done
# The library is installed first: the first program comes before the lines that say how.
{ grep '^cmake ' "$commands"; grep -v '^cmake ' "$commands"; } | grep -vxF "$(printf '%s\n' "${others[@]}")" >"$commands.run"
while read -r line; do
  echo "\$ $line"
  bash -c "$line" >~/out 2>&1 </dev/null || { cat ~/out; echo "failed: $line"; exit 1; }
done <"$commands.run"
# The first program prints what stands below it.
diff <(~/first) <(awk '/^```text/ { inside = 1; next } /^```/ && inside { exit } inside' README.md)
echo "$(wc -l <"$commands.run") commands ran"
