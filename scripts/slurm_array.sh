#!/usr/bin/env bash
# A job of a Slurm array: each task scores its share of the records, and together their outputs are those of one run.
#
#     sbatch --array=1-8 scripts/slurm_array.sh records.jsonl -m checkpoint/ -o scores/ -- --emit answer
#     cat scores/part-*-of-00008.jsonl > scores.jsonl      # when all have ended
#
# Files, checkpoint and output lie on a file system that all nodes share. Where a task is ended (its time is up, its node is taken away) or
# fails, submit the same command again: tasks that had ended well score nothing again, the others go on where they stopped (--resume).
# A task ends with kime's status: 1 where a record has an error line. KIME names the program where it is not in PATH; DRY_RUN=1 prints the
# command instead of running it.
#SBATCH --job-name=kime
#SBATCH --cpus-per-task=8
#SBATCH --signal=B:TERM@60
#SBATCH --requeue
set -euo pipefail

fail() {
  echo "slurm_array: $1" >&2
  exit 2
}

inputs=() model=${KIME_MODEL:-} output= options=()
while [ $# -gt 0 ]; do
  case "$1" in
    -o | -m) [ $# -gt 1 ] || fail "$1 needs a value" ;;&
    -o) output=$2 && shift 2 ;;
    -m) model=$2 && shift 2 ;;
    --) options=("${@:2}") && break ;;
    -*) fail "unknown option '$1'; options of kime score go after --" ;;
    *) inputs+=("$1") && shift ;;
  esac
done
[ ${#inputs[@]} -gt 0 ] || fail "which records? Usage: sbatch --array=1-N slurm_array.sh FILE... -m DIR -o DIR [-- OPTION...]"
[ "$model" ] || fail "which checkpoint? Say -m DIR or set KIME_MODEL"
[ "$output" ] || fail "where to? Say -o DIR"
[ "${SLURM_ARRAY_TASK_ID:-}" ] || fail "this is a task of an array: sbatch --array=1-N"

# Shares are those of an array from 1 to N. Where only some tasks are submitted again, SHARES says how many there were.
task=$SLURM_ARRAY_TASK_ID
shares=${SHARES:-$SLURM_ARRAY_TASK_COUNT}
if [ -z "${SHARES:-}" ] && { [ "$SLURM_ARRAY_TASK_MIN" -ne 1 ] || [ "$SLURM_ARRAY_TASK_MAX" -ne "$shares" ]; }; then
  fail "the array has $shares tasks from $SLURM_ARRAY_TASK_MIN to $SLURM_ARRAY_TASK_MAX, not from 1 to $shares; to do some of N shares again, set SHARES=N"
fi
[ "$task" -ge 1 ] && [ "$task" -le "$shares" ] || fail "there is no share $task of $shares"

part=$(printf '%s/part-%05d-of-%05d.jsonl' "$output" "$task" "$shares")
command=("${KIME:-kime}" score "${inputs[@]}" -m "$model" --shard "$task/$shares" -o "$part" --resume --threads "${SLURM_CPUS_PER_TASK:-1}"
  "${options[@]}")
if [ "${DRY_RUN:-}" ]; then
  printf '%q ' "${command[@]}"
  echo
  exit 0
fi
if [ -e "$part" ]; then # it gets this name when all of it is written
  echo "slurm_array: $part is there: this task has ended before"
  exit 0
fi
mkdir -p "$output"
exec "${command[@]}"
