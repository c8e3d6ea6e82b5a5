# CHORD-mu (arXiv 2508.11408), a baseline: GRPO on all training prompts, and supervised fine-tuning on responses from
# elsewhere (FOREIGN_PT), whose weight falls during training.

POSITIONAL=(NAME '[sft_loss_coeff]' '[seed]')
# The prompts that it explores; eta at its highest, mu / (1 - mu); the share of it that the last step has; steps of a
# linear warm-up (0: none).
EXPLORED=${EXPLORED:-all}
SFT_LOSS_COEFF=${SFT_LOSS_COEFF:-1.0}
CHORD_FINAL_RATIO=${CHORD_FINAL_RATIO:-0.05}
CHORD_WARMUP_STEPS=${CHORD_WARMUP_STEPS:-0}
source "$LIB/launch.sh"

train \
  "${REHEARSAL[@]}" \
  data.sft_files="$(list "$BASELINE_FILES")" \
  data.sft_pt="'$FOREIGN_PT'" \
  actor_rollout_ref.actor.clip_ratio_high="$GRPO_CLIP_HIGH" \
  actor_rollout_ref.actor.sft_loss_mode=forward \
  actor_rollout_ref.actor.sft_loss_normalization=per_set \
  actor_rollout_ref.actor.sft_loss_coeff="$SFT_LOSS_COEFF" \
  actor_rollout_ref.actor.sft_loss_control.type=cosine \
  actor_rollout_ref.actor.sft_loss_control.warmup_steps="$CHORD_WARMUP_STEPS" \
  actor_rollout_ref.actor.sft_loss_control.final_ratio="$CHORD_FINAL_RATIO" \
  "$@"
