# The D_pef store: one more sample of each near-perfect prompt; the correct ones with reference log-probs into SFT_PT, the
# other prompts to TRAIN_WRONG.

POSITIONAL=('[NAME]' '[seed]')
source "$LIB/launch.sh"

launch "$PYTHON" -m verl.dph.main "${MACHINE[@]}" "${MODEL[@]}" "${ROLLOUT[@]}" "${DATA[@]}" "${ACTOR[@]}" \
  actor_rollout_ref.actor.generate_sft=True \
  data.sft_files="'$TRAIN_CORRECT'" \
  data.sft_wrong_files="'$TRAIN_WRONG'" \
  data.sft_pt="'$SFT_PT'" \
  data.sft_seed="$SEED" \
  trainer.project_name="$PROJECT_NAME" \
  trainer.experiment_name="${NAME:-get_correct_data_tensor}" \
  trainer.logger="[console]" \
  "$@"
