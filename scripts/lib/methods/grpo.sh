# GRPO on all training prompts without a divergence, the baseline.

POSITIONAL=(NAME '[seed]')
# Upper clip of the ratio; the other methods have a higher one (CLIP_HIGH).
GRPO_CLIP_HIGH=${GRPO_CLIP_HIGH:-0.2}
source "$LIB/launch.sh"

train \
  data.train_files="$(list "$BASELINE_FILES")" \
  actor_rollout_ref.actor.clip_ratio_high="$GRPO_CLIP_HIGH" \
  "$@"
