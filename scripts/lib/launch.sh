# What the launch scripts share: the settings as arrays of Hydra overrides, and the programs that take them.
# Sourced after a settings file such as llama_sql.sh.

set -euo pipefail

if [[ $DEVICE == cpu ]]; then
  export VERL_PLATFORM=cpu
  # Two busy processes with one thread each beat two threads each.
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
fi

# How many machines, and how many devices on each, where the settings leave it open.
NNODES=${NNODES:-1}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}

MACHINE=(
  device="$DEVICE"
  trainer.nnodes="$NNODES"
  trainer.n_gpus_per_node="$GPUS_PER_NODE"
)

MODEL=(
  actor_rollout_ref.model.path="$MODEL_PATH"
)

ROLLOUT=(
  data.max_prompt_length="$MAX_PROMPT_LENGTH"
  data.max_response_length="$MAX_RESPONSE_LENGTH"
  actor_rollout_ref.rollout.max_model_len=$((MAX_PROMPT_LENGTH + MAX_RESPONSE_LENGTH))
  actor_rollout_ref.rollout.temperature="$TEMPERATURE"
  actor_rollout_ref.rollout.top_p="$TOP_P"
  actor_rollout_ref.rollout.seed="$SEED"
  actor_rollout_ref.rollout.tensor_model_parallel_size="$TENSOR_PARALLEL"
  actor_rollout_ref.rollout.gpu_memory_utilization="$GPU_MEMORY_UTILIZATION"
)

DATA=(
  data.train_batch_size="$TRAIN_BATCH_SIZE"
  data.seed="$SEED"
  data.truncation=error
)

ACTOR=(
  actor_rollout_ref.actor.strategy="$STRATEGY"
  actor_rollout_ref.actor.ppo_mini_batch_size="$MINI_BATCH_SIZE"
  actor_rollout_ref.actor.ppo_epochs=1
  actor_rollout_ref.actor.loss_agg_mode=token-mean
  actor_rollout_ref.actor.optim.lr="$LEARNING_RATE"
  actor_rollout_ref.actor.use_dynamic_bsz=True
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu="$MAX_TOKENS_PER_GPU"
  actor_rollout_ref.rollout.n="$ROLLOUT_N"
  actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True
  actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu="$MAX_TOKENS_PER_GPU"
  actor_rollout_ref.ref.log_prob_use_dynamic_bsz=True
  actor_rollout_ref.ref.log_prob_max_token_len_per_gpu="$MAX_TOKENS_PER_GPU"
  actor_rollout_ref.actor.use_kl_loss=False
  algorithm.use_kl_in_reward=False
  algorithm.adv_estimator=grpo
)

VALIDATION=(
  data.val_files="[$VAL_FILES]"
  trainer.val_before_train=False
  actor_rollout_ref.rollout.val_kwargs.do_sample=True
  actor_rollout_ref.rollout.val_kwargs.n="$VAL_N"
  actor_rollout_ref.rollout.val_kwargs.temperature="$VAL_TEMPERATURE"
  actor_rollout_ref.rollout.val_kwargs.top_p="$TOP_P"
)

# rehearsal MODE ETA: the D_pef side of a DPH run, for train's arguments.
rehearsal() {
  REHEARSAL=(
    actor_rollout_ref.actor.sft_loss_mode="$1"
    actor_rollout_ref.actor.sft_loss_coeff="$2"
    actor_rollout_ref.actor.sft_loss_normalization="$SFT_NORMALIZATION"
    data.sft_files="$TRAIN_CORRECT"
    data.sft_pt="$SFT_PT"
    data.sft_batch_size="$SFT_BATCH_SIZE"
    data.sft_seed="$SEED"
  )
}

# launch COMMAND...: every program of the scripts is started here.
launch() {
  exec "$@"
}

# train NAME OVERRIDES...: one training run in $OUTPUT_DIR/NAME; it resumes from the newest checkpoint there.
train() {
  local name=$1
  shift
  mkdir -p "$OUTPUT_DIR/$name/metrics"
  # A resumed run logs to a file of its own: verl empties the one that it opens.
  export VERL_FILE_LOGGER_PATH=$OUTPUT_DIR/$name/metrics/$(date +%Y%m%d-%H%M%S).jsonl
  launch "$PYTHON" -m verl.dph.main "${MACHINE[@]}" "${MODEL[@]}" "${ROLLOUT[@]}" "${DATA[@]}" "${ACTOR[@]}" \
    "${VALIDATION[@]}" \
    trainer.project_name="$PROJECT_NAME" \
    trainer.experiment_name="$name" \
    trainer.default_local_dir="$OUTPUT_DIR/$name" \
    trainer.logger="$LOGGER" \
    trainer.total_epochs="$EPOCHS" \
    trainer.total_training_steps="$TOTAL_STEPS" \
    trainer.test_freq="$TEST_FREQ" \
    trainer.save_freq="$SAVE_FREQ" \
    "$@"
}

# usage TEXT ARGUMENT: print TEXT and leave when the first argument asks for it or is missing.
usage() {
  if [[ ${2:-} == -h || ${2:-} == --help ]]; then
    printf '%s\n' "$1"
    exit 0
  elif [[ -z ${2:-} ]]; then
    printf '%s\n' "$1" >&2
    exit 2
  fi
}
