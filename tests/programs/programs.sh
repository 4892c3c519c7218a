#!/usr/bin/env bash
# What all programs have in common on the command line: wrong arguments end them with code 2 and a sentence that
# helps, --help fits the terminal, and so does what the demos print.
#   programs.sh PROGRAM...     those of build/<preset>/examples, tests and bench, in any order
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LC_ALL=C.UTF-8  # wc -L counts columns
declare -A path
for program in "$@"; do path[$(basename "$program")]=$(realpath "$program"); done
cd "$folder"

fail() {
  echo "failed: $*" >&2
  exit 1
}

# run STATUS PROGRAM ARGUMENTS...: what it prints is in out and err.
run() {
  local wanted=$1 name=$2 status=0
  shift 2
  "${path[$name]}" "$@" >out 2>err </dev/null || status=$?
  [ "$status" -eq "$wanted" ] || fail "$name $* ends with $status, not $wanted: $(cat err)"
}

# refuses MESSAGE PROGRAM ARGUMENTS...: a wrong argument.
refuses() {
  local message=$1
  shift
  run 2 "$@"
  grep -qF -- "$message" err || fail "$* says: $(cat err)"
  [ ! -s out ] || fail "$* prints before it refuses: $(head -3 out)"
}

for name in "${!path[@]}"; do
  case $name in
    doc_program)
      refuses "usage: doc_program" doc_program
      refuses "usage: doc_program" doc_program chek page program
      run 1 doc_program code none.md out.cpp
      # A row of a contract that no test holds.
      echo 'TEST_CASE("it holds", "[law]") {' >test_x.cpp
      for test in '`test_x` "it does not"' '`test_x` [other]' '`test_y` [law]' ''; do
        printf '| what | held by |\n|---|---|\n| a row | `test_x` "it holds", [law] |\n| another | %s |\n' "$test" >page.md
        run 1 doc_program held page.md test_x.cpp
      done
      continue ;;
  esac
  refuses "there is no option --definitely-not" "$name" --definitely-not
  for width in 40 80; do
    export COLUMNS=$width
    run 0 "$name" --help
    [ "$(wc -L <out)" -le "$width" ] || fail "$name --help is wider than $width columns"
    ! grep -E '[0-9]e\+|FLOAT|INT|in \[' out || fail "$name --help speaks to programmers"
    [ "$name" != mini_gpt_demo ] || tr -s ' \n' '  ' <out | grep -qF -- '--top-p X choose among the likeliest that are together so likely; above 0, at most 1 (default: 1)' ||
      fail "a range that is not in words: $(cat out)"
  done
  unset COLUMNS
done

if [ -n "${path[attention_demo]:-}" ]; then
  refuses 'no option --sed, did you mean --seed?' attention_demo --sed 4
  refuses 'no option --hed, did you mean --head?' attention_demo --hed=1
  refuses '--heads is 5, it must divide --d-model, which is 16' attention_demo --heads 5
  refuses '--heads is 0, it must be 1 or more' attention_demo --heads 0
  refuses '--d-model is 1.5, it must be a whole number, 1 or more' attention_demo --d-model 1.5
  refuses '--seed is -1, it must be a whole number, 0 to 18446744073709551615' attention_demo --seed -1
  refuses '--form is round, it must be one of auto, blocks, ascii, color' attention_demo --form round
  refuses '--text is empty' attention_demo --text ''
  refuses '--text has white space alone' attention_demo --text ' '
  refuses '--head is 2, heads are counted from 0 to 1' attention_demo --head 2
  refuses '--corpus is empty, it must name a file' attention_demo --corpus ''
  refuses 'what is "gpt"' attention_demo gpt
  run 1 attention_demo --corpus none
  : >nothing
  run 1 attention_demo --corpus nothing
  grep -q 'nothing is empty: nothing to learn from' err || fail "an empty corpus: $(cat err)"

  # English is known, any other text is learned, and what is unknown is explained.
  for text in 'hello world, how are you' 'Tokyo 2024: 東京!'; do
    run 0 attention_demo --text "$text"
    ! grep -q 'unk\|�' out || fail "unknown tokens: $(head -12 out)"
  done
  run 0 attention_demo --text 'hello fog' --vocab-size 100
  tr -s ' \n' '  ' <out | grep -q '1 of 8 tokens is <unk>, decoded as �: a character, or an end of a word' || fail "no word of <unk>: $(cat out)"
fi

# The words are the same at every width, and no line is wider: no number is broken in half.
fits() {
  export COLUMNS=1000
  run 0 "$@"
  tr -s ' \n' '\n' <out >words
  for COLUMNS in 40 57 80; do
    run 0 "$@"
    [ "$(wc -L <out)" -le "$COLUMNS" ] || fail "$* prints wider than $COLUMNS columns: $(grep -E ".{$((COLUMNS + 1))}" out)"
    tr -s ' \n' '\n' <out | cmp -s - words || fail "$* prints other words in $COLUMNS columns: $(tr -s ' \n' '\n' <out | diff - words)"
  done
  unset COLUMNS
}
[ -z "${path[attention_demo]:-}" ] || fits attention_demo
[ -z "${path[attention_demo]:-}" ] || fits attention_demo --d-model 256 --heads 2 --text 'a b'
[ -z "${path[bpe_demo]:-}" ] || fits bpe_demo
for name in viz_demo mini_gpt_demo; do
  [ -n "${path[$name]:-}" ] || continue
  arguments=()
  [ "$name" = viz_demo ] || arguments=(--steps 20 --layers 1 --heads 2 --d-model 32 --context 16 --length 60 --seed 123456789012345)
  for COLUMNS in 40 80; do
    export COLUMNS
    run 0 "$name" "${arguments[@]}"
    [ "$(wc -L <out)" -le "$COLUMNS" ] || fail "$name prints wider than $COLUMNS columns: $(grep -E ".{$((COLUMNS + 1))}" out)"
  done
  unset COLUMNS
done

if [ -n "${path[bpe_demo]:-}" ]; then
  refuses '--text is empty' bpe_demo --text ''
  refuses '--load and --corpus exclude each other' bpe_demo --load x --corpus y
fi
if [ -n "${path[viz_demo]:-}" ]; then
  refuses '--width is 39, it must be 40 to 1000' viz_demo --width 39
  printf '1,2\n3\n' >bad.csv
  run 1 viz_demo --csv bad.csv
fi
if [ -n "${path[mini_gpt_demo]:-}" ]; then
  refuses 'no option --stpes, did you mean --steps?' mini_gpt_demo --stpes 5
  refuses '--lr is 10, it must be above 0, below 10' mini_gpt_demo --lr 10
  refuses '--d-model is 130, it must be a multiple of --heads, which is 4' mini_gpt_demo --d-model 130
  refuses '--batch is 1e3, it must be a whole number' mini_gpt_demo --batch 1e3
  refuses '--text is empty, it must name a file' mini_gpt_demo --text ''
fi
if [ -n "${path[heed_bench]:-}" ]; then
  refuses '--filter is (, no regular expression' heed_bench --filter '('
  refuses '--threads is for --peers' heed_bench --threads 2
  refuses 'did you mean --quick?' heed_bench --quik
fi
for name in conformance bpe_conformance; do
  [ -n "${path[$name]:-}" ] || continue
  refuses 'there is no folder "none"' "$name" none
  refuses 'DIR' "$name"
  run 1 "$name" .
  run 1 "$name" . . # several folders are taken: 2 would be a refusal
done
echo passed
