#!/usr/bin/env bash
# GRPO on all training prompts, without a divergence: the baseline.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
source "$LIB/llama_sql.sh"
source "$LIB/launch.sh"
usage "usage: bash scripts/llama/grpo.sh NAME [Hydra overrides]; settings are the variables of scripts/lib/llama_sql.sh" "${1:-}"
NAME=$1
shift

train "$NAME" \
  data.train_files="$TRAIN_FILE" \
  actor_rollout_ref.actor.clip_ratio_high="$GRPO_CLIP_HIGH" \
  "$@"
