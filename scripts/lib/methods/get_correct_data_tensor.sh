# The D_pef store: one more sample per near-perfect prompt; correct ones go with reference log-probs into SFT_PT, the
# prompts of the others into TRAIN_WRONG.

POSITIONAL=('[NAME]' '[seed]')
# Which prompts are rehearsed: mastered (TRAIN_CORRECT) or solved (every one that a sample in SAMPLES solved); and how many
# correct responses of each: a number, or all. Other than mastered with 1: those in SAMPLES, and nothing is drawn.
SFT_COVERAGE=${SFT_COVERAGE:-mastered}
SFT_RESPONSES_PER_PROMPT=${SFT_RESPONSES_PER_PROMPT:-1}
# A parquet or JSON lines of responses from elsewhere, which are stored instead; empty: the model's own.
SFT_RESPONSES=${SFT_RESPONSES:-}
source "$LIB/launch.sh"

launch "$PYTHON" -m verl.dph.main "${MACHINE[@]}" "${MODEL[@]}" "${ROLLOUT[@]}" "${DATA[@]}" "${ACTOR[@]}" \
  actor_rollout_ref.actor.generate_sft=True \
  data.sft_files="'$TRAIN_CORRECT'" \
  data.sft_wrong_files="'$TRAIN_WRONG'" \
  data.sft_pt="'$SFT_PT'" \
  data.sft_coverage="$SFT_COVERAGE" \
  data.sft_responses_per_prompt="$SFT_RESPONSES_PER_PROMPT" \
  data.sft_samples="'$SAMPLES'" \
  data.sft_responses="$([[ -n $SFT_RESPONSES ]] && echo "'$SFT_RESPONSES'" || echo null)" \
  data.sft_seed="$SEED" \
  trainer.project_name="$PROJECT_NAME" \
  trainer.experiment_name="${NAME:-get_correct_data_tensor}" \
  trainer.logger="[console]" \
  "$@"
