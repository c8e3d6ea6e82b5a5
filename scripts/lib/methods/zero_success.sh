# GRPO on zero-success prompts (arXiv 2606.15455), a baseline: on the prompts alone that no sample of the initial policy
# solved (TRAIN_UNSOLVED).

POSITIONAL=(NAME '[seed]')
source "$LIB/launch.sh"

train \
  data.train_files="'$TRAIN_UNSOLVED'" \
  actor_rollout_ref.actor.clip_ratio_high="$GRPO_CLIP_HIGH" \
  "$@"
