# Shared by the launch scripts: their settings, the Hydra overrides made of them, and the programs that take these.
# A file of scripts/lib/methods sources it after naming its POSITIONAL arguments and their defaults.

set -euo pipefail
PROJECT_DIR=${PROJECT_DIR:-$(cd "$LIB/../.." && pwd)}
source "$LIB/arguments.sh"
source "$LIB/checks.sh"
source "$LIB/plan.sh"

# What the plan may choose, and by setting the defaults of our own files: a setting with another value is the user's.
ENGINE=(OFFLOAD GPU_MEMORY_UTILIZATION TENSOR_PARALLEL MAX_TOKENS_PER_GPU)
declare -A DEFAULTS=()

# read_settings FILE
read_settings() {
  local name empty=()
  [[ -f $1 ]] || fail "the settings $1 do not exist: name a file of $LIB or the path of your own in SETTINGS."
  SETTINGS_FILES+=("$1")
  for name in "${ENGINE[@]}"; do
    [[ -n ${!name:-} ]] || empty+=("$name")
  done
  source "$1"
  [[ $1 == "$LIB"/* ]] || return 0
  for name in "${empty[@]}"; do
    [[ -z ${!name:-} ]] || DEFAULTS[$name]=${!name}
  done
}

# name_model TASK: set what the defaults of folders and the project are named after. The paper's models keep its names.
# shellcheck disable=SC2034  # the settings read them
name_model() {
  MODEL_NAME=${MODEL_PATH%/}
  MODEL_NAME=${MODEL_NAME##*/}
  MODEL_NAME=${MODEL_NAME,,}
  case $MODEL_NAME in
    llama-3.1-8b-instruct) MODEL_NAME=llama3.1-8b GROUP=llama-$1 ;;
    omnisql-32b) GROUP=omnisql-$1 ;;
    qwen2.5-math-7b) GROUP=qwen-$1 ;;
    *) GROUP=$MODEL_NAME-$1 ;;
  esac
}

NAME=''
SETTINGS_FILES=("${BASH_SOURCE[1]}")
read_settings "$LIB/machine.sh"
if [[ $SETTINGS == */* ]]; then read_settings "$SETTINGS"; else read_settings "$LIB/$SETTINGS.sh"; fi
require "$COUNT" 'a whole number of tokens' MAX_PROMPT_LENGTH MAX_RESPONSE_LENGTH # bash computes with them
read_settings "$LIB/common.sh"
read_settings "$LIB/cluster.sh"

read_arguments "$@"
if [[ -n $HELP ]]; then
  print_help "${SETTINGS_FILES[@]}"
  exit 0
fi
set -- "${OVERRIDES[@]}"
# What a dry run can tell without the environment; the program checks all settings.
require "$COUNT" 'a whole number, 1 or more' TRAIN_BATCH_SIZE MINI_BATCH_SIZE ROLLOUT_N SFT_BATCH_SIZE SAMPLES_PER_PROMPT \
  VAL_N EPOCHS TENSOR_PARALLEL
require "$COUNT|null|[Nn]one" 'a whole number, 1 or more, or null' TOTAL_STEPS KEEP_CHECKPOINTS MAX_TOKENS_PER_GPU
require "$WHOLE|-1" 'a whole number of steps, or -1 for never' TEST_FREQ SAVE_FREQ
require "$WHOLE" 'a whole number' SEED
require "$NUMBER" 'a number, 0 or more' SFT_LOSS_COEFF ALPHA POLICY_LOSS_COEFF LEARNING_RATE CLIP_HIGH GRPO_CLIP_HIGH \
  TEMPERATURE VAL_TEMPERATURE TOP_P GPU_MEMORY_UTILIZATION

if [[ -z $DEVICE ]]; then
  DEVICE=cuda
  cluster_has_gpu || { DEVICE=cpu && echo "No NVIDIA GPU was found: DEVICE=cpu." >&2; }
fi
# Machines and devices, if the settings leave them open. The address of a run's own scorer is known when it has started: a
# dry run shows a place for it, which no program takes for an address.
cluster_detect
[[ -z $DRY_RUN ]] || DPH_SCORER=${DPH_SCORER:-http://HOST:PORT}

# set_environment NAME VALUE: for the programs; --dry-run prints it.
set_environment() {
  export "$1=$2"
  ENVIRONMENT+=("$1=$2")
}

ENVIRONMENT=()
[[ -z $DPH_SCORER ]] || set_environment DPH_SCORER "$DPH_SCORER"
if [[ $DEVICE == cpu ]]; then
  set_environment VERL_PLATFORM cpu
  # Two busy processes with one thread each beat two threads each.
  set_environment OMP_NUM_THREADS "${OMP_NUM_THREADS:-1}"
fi

# list FILE,FILE...: as Hydra's list.
list() {
  printf "['%s']" "${1//,/\',\'}"
}

MACHINE=(
  device="$DEVICE"
  trainer.nnodes="$TRAIN_NODES"
  trainer.n_gpus_per_node="$GPUS_PER_NODE"
)

MODEL=(
  actor_rollout_ref.model.path="'$MODEL_PATH'"
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
  actor_rollout_ref.actor.fsdp_config.param_offload="${OFFLOAD/#policy/False}"
  actor_rollout_ref.actor.fsdp_config.optimizer_offload="${OFFLOAD/#policy/False}"
  actor_rollout_ref.actor.fsdp_config.offload_policy="$([[ $OFFLOAD == policy ]] && echo True || echo False)"
  actor_rollout_ref.ref.fsdp_config.param_offload="${OFFLOAD/#policy/False}"
  actor_rollout_ref.actor.ppo_mini_batch_size="$MINI_BATCH_SIZE"
  actor_rollout_ref.actor.ppo_epochs=1
  actor_rollout_ref.actor.loss_agg_mode=token-mean
  actor_rollout_ref.actor.optim.lr="$LEARNING_RATE"
  actor_rollout_ref.actor.use_dynamic_bsz=True
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu="$MAX_TOKENS_PER_GPU"
  actor_rollout_ref.rollout.n="$ROLLOUT_N"
  actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True
  actor_rollout_ref.ref.log_prob_use_dynamic_bsz=True
  actor_rollout_ref.actor.policy_loss_coeff="$POLICY_LOSS_COEFF"
  actor_rollout_ref.actor.use_kl_loss=False
  algorithm.use_kl_in_reward=False
  algorithm.adv_estimator=grpo
)

VALIDATION=(
  data.val_files="$([[ -n $VAL_FILES ]] && list "$VAL_FILES" || echo null)"
  trainer.val_before_train=False
  actor_rollout_ref.rollout.val_kwargs.do_sample=True
  actor_rollout_ref.rollout.val_kwargs.n="$VAL_N"
  actor_rollout_ref.rollout.val_kwargs.temperature="$VAL_TEMPERATURE"
  actor_rollout_ref.rollout.val_kwargs.top_p="$TOP_P"
)

# The D_pef side of a DPH run, and what it explores.
[[ $EXPLORED == @(exp|all) ]] || fail "EXPLORED is '$EXPLORED': give exp (TRAIN_WRONG) or all (BASELINE_FILES)."
# shellcheck disable=SC2034  # the methods read it
REHEARSAL=(
  data.train_files="$([[ $EXPLORED == all ]] && list "$BASELINE_FILES" || echo "'$TRAIN_WRONG'")"
  actor_rollout_ref.actor.sft_loss_normalization="$SFT_NORMALIZATION"
  data.sft_files="'$TRAIN_CORRECT'"
  data.sft_pt="'$SFT_PT'"
  data.sft_batch_size="$SFT_BATCH_SIZE"
  data.sft_seed="$SEED"
)

# train OVERRIDES...: one training run in $OUTPUT_DIR/$NAME; resumes from the newest checkpoint there.
train() {
  [[ $EXPLORED == exp || "$*" == *data.sft_pt=* ]] ||
    fail "EXPLORED=$EXPLORED is for methods that rehearse D_pef, and this one does not: unset it."
  launch "$PYTHON" -m verl.dph.main "${MACHINE[@]}" "${MODEL[@]}" "${ROLLOUT[@]}" "${DATA[@]}" "${ACTOR[@]}" \
    "${VALIDATION[@]}" \
    trainer.project_name="$PROJECT_NAME" \
    trainer.experiment_name="$NAME" \
    trainer.default_local_dir="'$OUTPUT_DIR/$NAME'" \
    trainer.logger="$LOGGER" \
    trainer.total_epochs="$EPOCHS" \
    trainer.total_training_steps="$TOTAL_STEPS" \
    trainer.test_freq="$TEST_FREQ" \
    trainer.save_freq="$SAVE_FREQ" \
    trainer.max_actor_ckpt_to_keep="$KEEP_CHECKPOINTS" \
    "$@"
}

# launch COMMAND...: start a program, with Ray on the other machines and the missing scorers.
launch() {
  if [[ $DRY_RUN == command ]]; then
    plan "$@"
    print_command "${PLANNED[@]}"
    exit 0
  fi
  [[ -n $DRY_RUN ]] || check_files "$@"
  check_environment
  plan "$@"
  set -- "${PLANNED[@]}"
  [[ -z $DRY_RUN ]] || exec "$@" --cfg=job --resolve
  cluster_exec "$@"
}

# print_command COMMAND...: with its environment, ready to paste.
print_command() {
  local word
  printf 'env'
  for word in "${ENVIRONMENT[@]}" "$@"; do
    printf ' \\\n  %s' "$(quoted "$word")"
  done
  printf '\n'
}

# quoted WORD: for the shell, only if needed.
quoted() {
  if [[ $1 =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]]; then
    printf '%s' "$1"
  elif [[ $1 =~ [\"\\\$\`!] ]]; then
    printf '%s' "${1@Q}"
  else
    printf '"%s"' "$1"
  fi
}
