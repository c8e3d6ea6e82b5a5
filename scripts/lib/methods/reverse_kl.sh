# RKL, a baseline: GRPO on all training prompts with the reverse KL on them. Needs a reference model (use_kl_loss), no
# D_pef.

POSITIONAL=(NAME '[sft_loss_coeff]' '[seed]')
# eta; the paper's range is 0.01 to 0.05.
SFT_LOSS_COEFF=${SFT_LOSS_COEFF:-0.01}
source "$LIB/launch.sh"

train \
  data.train_files="$(list "$BASELINE_FILES")" \
  actor_rollout_ref.actor.clip_ratio_high="$CLIP_HIGH" \
  actor_rollout_ref.actor.sft_loss_mode=reverse_kl \
  actor_rollout_ref.actor.sft_loss_coeff="$SFT_LOSS_COEFF" \
  actor_rollout_ref.actor.use_kl_loss=True \
  data.sft_files=null \
  data.sft_pt=null \
  "$@"
