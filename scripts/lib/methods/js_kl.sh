# DPH-JS, generator form: GRPO on D_exp with twice the Jensen-Shannon divergence on D_pef.

POSITIONAL=(NAME '[sft_loss_coeff]' '[seed]')
# eta; the paper's range is 0.05 to 0.2.
SFT_LOSS_COEFF=${SFT_LOSS_COEFF:-0.2}
source "$LIB/launch.sh"

train \
  actor_rollout_ref.actor.clip_ratio_high="$CLIP_HIGH" \
  actor_rollout_ref.actor.sft_loss_mode=js_low_var \
  actor_rollout_ref.actor.sft_loss_coeff="$SFT_LOSS_COEFF" \
  "${REHEARSAL[@]}" \
  "$@"
