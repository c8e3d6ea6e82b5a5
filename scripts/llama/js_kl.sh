#!/usr/bin/env bash
# DPH-JS, generator form: GRPO on D_exp with twice the Jensen-Shannon divergence on D_pef.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
source "$LIB/llama_sql.sh"
source "$LIB/launch.sh"
usage "usage: bash scripts/llama/js_kl.sh NAME [sft_loss_coeff, default 0.2] [Hydra overrides]; settings are the variables of scripts/lib/llama_sql.sh" "${1:-}"
NAME=$1
ETA=${2:-0.2}
shift $(($# < 2 ? $# : 2))
rehearsal js_low_var "$ETA"

train "$NAME" \
  data.train_files="$TRAIN_WRONG" \
  actor_rollout_ref.actor.clip_ratio_high="$CLIP_HIGH" \
  "${REHEARSAL[@]}" \
  "$@"
