#!/usr/bin/env bash
# Pre-sampling: every training prompt k times from the initial policy, one JSONL line a sample. Resumes where it stopped.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
source "$LIB/llama_sql.sh"
source "$LIB/launch.sh"
usage "usage: bash scripts/llama/offline_sampling.sh NAME [Hydra overrides]; settings are the variables of scripts/lib/llama_sql.sh" "${1:-}"
shift

launch "$PYTHON" -m verl.dph.presample "${MACHINE[@]}" "${MODEL[@]}" "${ROLLOUT[@]}" \
  data.train_files="$TRAIN_FILE" \
  presample.n="$SAMPLES_PER_PROMPT" \
  presample.output="$SAMPLES" \
  "$@"
