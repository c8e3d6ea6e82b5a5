# PKPO (arXiv 2505.15201), a baseline: on all training prompts, the unbiased gradient of Pass@k for any k up to ROLLOUT_N,
# with the leave-one-out maximum over subsets as the advantage.

POSITIONAL=(NAME '[seed]')
# k, from 2 to ROLLOUT_N.
PKPO_K=${PKPO_K:-8}
source "$LIB/launch.sh"

train \
  data.train_files="$(list "$BASELINE_FILES")" \
  actor_rollout_ref.actor.clip_ratio_high="$GRPO_CLIP_HIGH" \
  algorithm.adv_estimator=pkpo \
  algorithm.pkpo_k="$PKPO_K" \
  "$@"
