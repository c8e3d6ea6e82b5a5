# DPH-F: GRPO on D_exp with the forward KL on D_pef.

POSITIONAL=(NAME '[sft_loss_coeff]' '[seed]')
# eta; the paper's range is 0.01 to 0.05.
SFT_LOSS_COEFF=${SFT_LOSS_COEFF:-0.01}
source "$LIB/launch.sh"

train \
  actor_rollout_ref.actor.clip_ratio_high="$CLIP_HIGH" \
  actor_rollout_ref.actor.sft_loss_mode=forward \
  actor_rollout_ref.actor.sft_loss_coeff="$SFT_LOSS_COEFF" \
  "${REHEARSAL[@]}" \
  "$@"
