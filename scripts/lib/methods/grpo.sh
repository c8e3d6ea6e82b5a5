# GRPO on all training prompts without a divergence, the baseline.

POSITIONAL=(NAME '[seed]')
source "$LIB/launch.sh"

train \
  data.train_files="$(list "$BASELINE_FILES")" \
  actor_rollout_ref.actor.clip_ratio_high="$GRPO_CLIP_HIGH" \
  "$@"
