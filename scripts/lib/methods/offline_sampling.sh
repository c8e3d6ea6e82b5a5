# Pre-sampling: SAMPLES_PER_PROMPT samples per training prompt from the initial policy, one JSON line each. Resumable.

POSITIONAL=('[NAME]' '[seed]')
source "$LIB/launch.sh"

launch "$PYTHON" -m verl.dph.presample "${MACHINE[@]}" "${MODEL[@]}" "${ROLLOUT[@]}" \
  data.train_files="$(list "$TRAIN_FILE")" \
  presample.n="$SAMPLES_PER_PROMPT" \
  presample.output="'$SAMPLES'" \
  trainer.project_name="$PROJECT_NAME" \
  trainer.experiment_name="${NAME:-offline_sampling}" \
  "$@"
