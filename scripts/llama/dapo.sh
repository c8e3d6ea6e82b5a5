#!/usr/bin/env bash
# DAPO on all training prompts: dynamic sampling, clip-higher, token-level loss, overlong reward shaping, no KL.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
source "$LIB/llama_sql.sh"
source "$LIB/launch.sh"
usage "usage: bash scripts/llama/dapo.sh NAME [Hydra overrides]; settings are the variables of scripts/lib/llama_sql.sh" "${1:-}"
NAME=$1
shift

# The last quarter of the response length is penalised linearly (DAPO, "Overlong reward shaping").
OVERLONG_BUFFER=${OVERLONG_BUFFER:-$((MAX_RESPONSE_LENGTH / 4))}

train "$NAME" \
  data.train_files="$TRAIN_FILE" \
  actor_rollout_ref.actor.clip_ratio_high="$CLIP_HIGH" \
  algorithm.filter_groups.enable=True \
  algorithm.filter_groups.metric=reward \
  reward.reward_manager.name=dapo \
  +reward.reward_kwargs.max_resp_len="$MAX_RESPONSE_LENGTH" \
  +reward.reward_kwargs.overlong_buffer_cfg.enable=True \
  +reward.reward_kwargs.overlong_buffer_cfg.len="$OVERLONG_BUFFER" \
  +reward.reward_kwargs.overlong_buffer_cfg.penalty_factor=1.0 \
  +reward.reward_kwargs.overlong_buffer_cfg.log=False \
  "$@"
