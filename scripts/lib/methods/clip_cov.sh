# Clip-Cov (arXiv 2505.22617), a baseline: GRPO on all training prompts without some of the tokens whose log-prob and
# advantage covary much; a wide clip. Per micro-batch, as in verl.

POSITIONAL=(NAME '[seed]')
# Share of the tokens that lose their gradient, drawn from those with a covariance between the two bounds; clip of the
# ratio, on both sides.
CLIP_COV_RATIO=${CLIP_COV_RATIO:-0.0002}
CLIP_COV_LOW=${CLIP_COV_LOW:-1.0}
CLIP_COV_HIGH=${CLIP_COV_HIGH:-5.0}
CLIP_COV_CLIP=${CLIP_COV_CLIP:-1.0}
source "$LIB/launch.sh"

train \
  data.train_files="$(list "$BASELINE_FILES")" \
  actor_rollout_ref.actor.clip_ratio_low="$CLIP_COV_CLIP" \
  actor_rollout_ref.actor.clip_ratio_high="$CLIP_COV_CLIP" \
  actor_rollout_ref.actor.policy_loss.loss_mode=clip_cov \
  actor_rollout_ref.actor.policy_loss.clip_cov_ratio="$CLIP_COV_RATIO" \
  actor_rollout_ref.actor.policy_loss.clip_cov_lb="$CLIP_COV_LOW" \
  actor_rollout_ref.actor.policy_loss.clip_cov_ub="$CLIP_COV_HIGH" \
  "$@"
