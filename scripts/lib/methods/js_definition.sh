# DPH-JS by its definition: GRPO on D_exp, with KL(pi_ref||M) on D_pef and KL(pi_theta||M) on D_exp. Needs a reference
# model (use_kl_loss).

POSITIONAL=(NAME '[sft_loss_coeff]' '[seed]')
# eta; the paper's range is 0.05 to 0.2.
SFT_LOSS_COEFF=${SFT_LOSS_COEFF:-0.2}
source "$LIB/launch.sh"

train \
  actor_rollout_ref.actor.clip_ratio_high="$CLIP_HIGH" \
  actor_rollout_ref.actor.sft_loss_mode=js \
  actor_rollout_ref.actor.sft_loss_coeff="$SFT_LOSS_COEFF" \
  actor_rollout_ref.actor.use_kl_loss=True \
  "${REHEARSAL[@]}" \
  "$@"
