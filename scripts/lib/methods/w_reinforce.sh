# W-REINFORCE (arXiv 2506.01347), a baseline: on all training prompts, the advantage is -1 for a wrong response and
# lambda for a correct one.

POSITIONAL=(NAME '[seed]')
# lambda; the paper's is 0.1.
W_REINFORCE_LAMBDA=${W_REINFORCE_LAMBDA:-0.1}
source "$LIB/launch.sh"

train \
  data.train_files="$(list "$BASELINE_FILES")" \
  actor_rollout_ref.actor.clip_ratio_high="$GRPO_CLIP_HIGH" \
  algorithm.adv_estimator=w_reinforce \
  algorithm.w_reinforce_lambda="$W_REINFORCE_LAMBDA" \
  "$@"
