# The alpha divergence: GRPO on D_exp with it on D_pef. alpha to 0 is the reverse KL, alpha to 1 the forward KL.

POSITIONAL=(NAME '[sft_loss_coeff]' '[alpha]' '[seed]')
# eta; the paper's range is 0.01 to 0.05. alpha; the paper has 0.2, 0.5 and 0.8.
SFT_LOSS_COEFF=${SFT_LOSS_COEFF:-0.01}
ALPHA=${ALPHA:-0.2}
source "$LIB/launch.sh"

train \
  actor_rollout_ref.actor.clip_ratio_high="$CLIP_HIGH" \
  actor_rollout_ref.actor.sft_loss_mode=alpha \
  actor_rollout_ref.actor.sft_loss_coeff="$SFT_LOSS_COEFF" \
  actor_rollout_ref.actor.alpha_coeff="$ALPHA" \
  "${REHEARSAL[@]}" \
  "$@"
