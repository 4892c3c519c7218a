#!/usr/bin/env bash
# mini_gpt_demo as a user meets it: the same text on any number of threads, Ctrl-C, and a run that goes on as if it
# had never stopped.
#   mini_gpt_demo.sh PROGRAM
set -euo pipefail

program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export COLUMNS=200  # each sentence is one line
small=(--layers 1 --heads 2 --d-model 32 --context 16 --batch 4 --length 40 --dropout 0.1)

fail() {
  echo "failed: $*" >&2
  exit 1
}

# All but the lines that say how long it took.
run() { "$program" "${small[@]}" "$@" | grep -v 'tokens/s\|^Model:\|^Memory:\|^Saved'; }

# expect CODE MESSAGE ARGUMENTS...: this exit code, and a message on standard error that contains MESSAGE.
expect() {
  local code=$1 message=$2 status=0
  shift 2
  "$program" "$@" >out 2>err || status=$?
  [ "$status" -eq "$code" ] || fail "exit code $status for $*"
  grep -qF -- "$message" err || fail "$* says: $(cat err)"
}

expect_error() { expect 1 "$@"; }
expect_usage() { expect 2 "$@"; }  # the arguments are wrong, whatever the files hold

run --steps 60 --threads 1 >one
run --steps 60 --threads 3 >three
cmp one three || fail "another text on three threads"
grep -q '^verdict: causal' one || fail "no verdict"
grep -q 'held out' one || fail "nothing is held out"
run --steps 60 --seed 7 --threads 1 >other
! cmp -s one other || fail "the same text from another seed"

# Ctrl-C in the middle, then resumed: the same checkpoint and text as in one go. The run is too long to end by itself,
# and its own lines say how far it is, through a pipe. A shell's background jobs start with SIGINT ignored.
mkfifo lines
"$program" "${small[@]}" --steps 1000000000 --lr-steps 400 --every 20 --save parts >lines &
running=$!
exec 3<lines
line=none
until [[ $line == *'step 40 '* ]]; do read -r line <&3 || fail "it ends before step 40, after: $line"; done
kill -INT "$running"
cat <&3 >last_lines
exec 3<&-
status=0
wait "$running" || status=$?
[ "$status" -eq 130 ] || fail "exit code $status after Ctrl-C"
stopped=$(sed -n 's/^Stopped at step \([0-9]*\) of 1000000000, saved\. To go on: --resume parts$/\1/p' last_lines)
[ "${stopped:-0}" -ge 40 ] || fail "Ctrl-C says: $(tail -1 last_lines)"
steps=$((stopped + 50))
run --resume parts --steps "$steps" >parts_text
grep -qx "Goes on at step $stopped" parts_text || fail "it does not go on: $(cat parts_text)"
run --steps "$steps" --lr-steps 400 --save whole >whole_text
cmp whole/checkpoint.safetensors parts/checkpoint.safetensors || fail "another model after Ctrl-C and --resume"
diff <(sed -n '/^Sample/,$p' whole_text) <(sed -n '/^Sample/,$p' parts_text) || fail "another text after --resume"

# Ctrl-C before the first step, while the text is read: a pipe can be opened for writing once the program reads it.
for launcher in 'env' 'env --default-signal=INT'; do
  $launcher true 2>/dev/null || continue
  rm -rf early early_whole
  mkfifo early_text
  # shellcheck disable=SC2086  # two words
  $launcher "$program" "${small[@]}" --text early_text --steps 30 --save early >first &
  running=$!
  exec 3>early_text
  kill -INT "$running"
  seq 1 900 >&3
  exec 3>&-
  status=0
  wait "$running" || status=$?
  [ "$status" -eq 130 ] || fail "exit code $status after Ctrl-C before the first step"
  grep -q '^Stopped at step 0 of 30, saved' first || fail "Ctrl-C before the first step says: $(tail -1 first)"
  rm early_text
  seq 1 900 >early_text
  run --resume early >early_lines
  grep -q '^Goes on at step 0' early_lines || fail "it does not go on from step 0"
  run --text early_text --steps 30 --save early_whole >/dev/null
  cmp early/checkpoint.safetensors early_whole/checkpoint.safetensors || fail "another model after a stop at step 0"
  rm early_text
done

# A run keeps its text and its model. Who only writes needs neither, and leaves the run as it is.
seq 1 900 >own
seq 1 901 >short_one
run --text own --steps 20 --save own_run >/dev/null
cp own_run/checkpoint.safetensors before
run --resume own_run --steps 0 --lr 0.5 --seed 3 >written
grep -q 'It has learned for 20 steps' written || fail "no word of what it has learned"
cmp before own_run/checkpoint.safetensors || fail "a run that only wrote has changed the checkpoint"
"$program" --resume own_run --steps 25 --length 20 >more
grep -q '^Text: own' more || fail "another text than the run's own: $(grep '^Text' more)"
expect_usage 'has learned from another text' --resume own_run --steps 30 --text short_one
expect_usage '--layers is 2, the run in own_run has 1' --resume own_run --layers 2
expect_usage '--positions is rotary, the run in own_run has learned' --resume own_run --positions rotary
rm own
"$program" --resume own_run --steps 0 --length 20 >/dev/null || fail "it needs the text to write"

# Only to write, with a beginning of the user's; byte pairs; texts that are too short or cannot be read.
run --resume whole --prompt "Shall I" --temperature 0 >prompted
grep -q '^  Shall I' prompted || fail "no prompt in the sample"
run --tokenizer bpe --vocab-size 200 --steps 5 >bpe
grep -q 'tokens of 200 kinds' bpe || fail "no byte pairs"
grep -q 'of .* tokens are <unk>, decoded as' bpe || fail "no word of what is unknown: $(cat bpe)"
[ "$(sed -n '/^Sample/,/^$/p' bpe | wc -L)" -le 78 ] || fail "a line that is too long for a terminal"
printf 'to be or not to be' >short
run --text short --steps 5 >short_text
grep -q 'too short to hold any of it out' short_text || fail "a short text"
printf 'to be' >shorter
expect_error 'there are 5 tokens: a window of 16' "${small[@]}" --text shorter
expect_error 'none: No such file' --text none
# More than the machine has is refused by its bytes, and a text that is too short before any memory is counted.
expect_usage 'TB for its training; this machine has' --layers 100000 --d-model 4096
expect_usage 'take a smaller --context, --batch' --layers 100000 --d-model 4096
grep -q '^Memory: .* TB for the model' out || fail "the sizes are not printed: $(cat out)"
expect_usage 'a batch of --batch 100000000000 and --context 64 needs' --batch 100000000000
seq 1 2000 >ten_kilobytes
expect_error 'a window of 100000' --text ten_kilobytes --context 100000
! grep -q '^Memory' out || fail "memory before a look at the text"
expect_error 'the character "#"' "${small[@]}" --steps 1 --prompt '#'
expect_usage '--d-model is 33, it must be a multiple of --heads, which is 4' --d-model 33
expect_usage "there is a run in whole already" --steps 1 --save whole
mkdir foreign && echo '{"mine": 1}' >foreign/config.json
expect_error "choose another folder" "${small[@]}" --steps 1 --save foreign
grep -q mine foreign/config.json || fail "somebody's own file was overwritten"
expect_error "cannot make the folder" "${small[@]}" --save short/none
printf 'characters of "characters", the characters of characters and characters\n%.0s' 1 2 3 >words
run --text words --tokenizer bpe --vocab-size 30 --steps 2 --save words_run >/dev/null
run --resume words_run --steps 3 >/dev/null || fail "byte pairs with the word characters"
expect_usage '--temperature is -1' --temperature -1
expect_usage '--lr-steps is -1' --lr-steps -1
expect_usage '--every is -1' --every -1
expect_error 'cannot open' --resume nowhere
echo passed
