# GRPO on all training prompts, without a divergence: the baseline.

POSITIONAL=(NAME '[seed]')
# The upper clip of the ratio, which the others have higher (CLIP_HIGH).
GRPO_CLIP_HIGH=${GRPO_CLIP_HIGH:-0.2}
source "$LIB/launch.sh"

train \
  data.train_files="$(list "$BASELINE_FILES")" \
  actor_rollout_ref.actor.clip_ratio_high="$GRPO_CLIP_HIGH" \
  "$@"
