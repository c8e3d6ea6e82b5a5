#!/usr/bin/env bash
# The D_pef store: one more sample of each near-perfect prompt; the correct ones with reference log-probs into $SFT_PT,
# the other prompts to train_wrong.parquet.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
source "$LIB/llama_sql.sh"
source "$LIB/launch.sh"
[[ ${1:-} != -h && ${1:-} != --help ]] || usage "usage: bash scripts/llama/get_correct_data_tensor.sh [Hydra overrides]; settings are the variables of scripts/lib/llama_sql.sh" "$1"

launch "$PYTHON" -m verl.dph.main "${MACHINE[@]}" "${MODEL[@]}" "${ROLLOUT[@]}" "${DATA[@]}" "${ACTOR[@]}" \
  actor_rollout_ref.actor.generate_sft=True \
  data.sft_files="$TRAIN_CORRECT" \
  data.sft_wrong_files="$TRAIN_WRONG" \
  data.sft_pt="$SFT_PT" \
  data.sft_seed="$SEED" \
  trainer.logger=[console] \
  "$@"
