# DAPO on all training prompts: dynamic sampling, clip-higher, token-level loss, overlong reward shaping, no KL.

POSITIONAL=(NAME '[seed]')
source "$LIB/launch.sh"

train \
  data.train_files="$(list "$BASELINE_FILES")" \
  actor_rollout_ref.actor.clip_ratio_high="$CLIP_HIGH" \
  algorithm.filter_groups.enable=True \
  algorithm.filter_groups.metric="$DAPO_METRIC" \
  reward.reward_manager.name=dapo \
  +reward.reward_kwargs.max_resp_len="$MAX_RESPONSE_LENGTH" \
  +reward.reward_kwargs.overlong_buffer_cfg.enable=True \
  +reward.reward_kwargs.overlong_buffer_cfg.len="$OVERLONG_BUFFER" \
  +reward.reward_kwargs.overlong_buffer_cfg.penalty_factor=1.0 \
  +reward.reward_kwargs.overlong_buffer_cfg.log=False \
  "$@"
