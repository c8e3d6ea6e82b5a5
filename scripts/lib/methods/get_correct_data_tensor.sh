# The D_pef store: one more sample per near-perfect prompt; correct ones go with reference log-probs into SFT_PT, the
# prompts of the others into TRAIN_WRONG.

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
