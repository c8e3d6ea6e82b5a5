# Negative-sample reinforcement (arXiv 2506.01347), a baseline: on all training prompts, the advantage is -1 for a wrong
# response and 0 for a correct one.

POSITIONAL=(NAME '[seed]')
source "$LIB/launch.sh"

train \
  data.train_files="$(list "$BASELINE_FILES")" \
  actor_rollout_ref.actor.clip_ratio_high="$GRPO_CLIP_HIGH" \
  algorithm.adv_estimator=w_reinforce \
  algorithm.w_reinforce_lambda=0.0 \
  "$@"
