# Pass@k with k = n (arXiv 2503.19595), a baseline: on all training prompts, the best response of a group alone has an
# advantage, by how much it is better than the second best.

POSITIONAL=(NAME '[seed]')
source "$LIB/launch.sh"

train \
  data.train_files="$(list "$BASELINE_FILES")" \
  actor_rollout_ref.actor.clip_ratio_high="$GRPO_CLIP_HIGH" \
  algorithm.adv_estimator=grpo_passk \
  "$@"
