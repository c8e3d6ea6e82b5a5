# GRPO with an entropy bonus, a baseline: on all training prompts, minus its weight times the mean entropy of the next
# token.

POSITIONAL=(NAME '[seed]')
# Weight of the entropy.
ENTROPY_COEFF=${ENTROPY_COEFF:-0.001}
source "$LIB/launch.sh"

train \
  data.train_files="$(list "$BASELINE_FILES")" \
  actor_rollout_ref.actor.clip_ratio_high="$GRPO_CLIP_HIGH" \
  actor_rollout_ref.actor.entropy_coeff="$ENTROPY_COEFF" \
  "$@"
