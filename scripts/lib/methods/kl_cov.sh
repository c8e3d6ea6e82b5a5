# KL-Cov (arXiv 2505.22617), a baseline: GRPO on all training prompts with a KL penalty on the tokens whose log-prob and
# advantage covary most; no clip. Per micro-batch, as in verl.

POSITIONAL=(NAME '[seed]')
# Share of the tokens (the paper: 0.002 at 7B, 0.0002 at 32B) and weight of the penalty.
KL_COV_RATIO=${KL_COV_RATIO:-0.002}
KL_COV_COEF=${KL_COV_COEF:-1.0}
source "$LIB/launch.sh"

train \
  data.train_files="$(list "$BASELINE_FILES")" \
  actor_rollout_ref.actor.policy_loss.loss_mode=kl_cov \
  actor_rollout_ref.actor.policy_loss.kl_cov_ratio="$KL_COV_RATIO" \
  actor_rollout_ref.actor.policy_loss.ppo_kl_coef="$KL_COV_COEF" \
  "$@"
