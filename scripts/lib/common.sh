# Settings that all experiments of the paper share, and those that the paper leaves open.

# Pre-sampling: samples per prompt, their file, the two parts into which they split the prompts, and the prompts that
# none of them solved (the wrong part of a split of its own). FOREIGN_PT: the store of responses from elsewhere.
SAMPLES_PER_PROMPT=${SAMPLES_PER_PROMPT:-8}
SAMPLES=${SAMPLES:-$DATA_DIR/generate_data/0.jsonl}
TRAIN_CORRECT=${TRAIN_CORRECT:-$DATA_DIR/train_correct.parquet}
TRAIN_WRONG=${TRAIN_WRONG:-$DATA_DIR/train_wrong.parquet}
TRAIN_UNSOLVED=${TRAIN_UNSOLVED:-$DATA_DIR/unsolved/train_wrong.parquet}
FOREIGN_PT=${FOREIGN_PT:-$DATA_DIR/foreign.pt}

# Training: prompts per step and per mini-batch, samples per prompt, D_pef rows per step and how eta weighs them; steps
# null: all epochs. GRPO's upper clip of the ratio, also of the baselines made of it; the paper's other methods have a
# higher one (CLIP_HIGH).
TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-128}
MINI_BATCH_SIZE=${MINI_BATCH_SIZE:-64}
ROLLOUT_N=${ROLLOUT_N:-16}
SFT_BATCH_SIZE=${SFT_BATCH_SIZE:-256}
SFT_NORMALIZATION=${SFT_NORMALIZATION:-joint}
# Of a run that rehearses: the prompts that it explores, exp (TRAIN_WRONG) or all (BASELINE_FILES), and the weight of the
# policy loss, which 0 switches off (then ROLLOUT_N=1 draws the fewest rollouts).
EXPLORED=${EXPLORED:-exp}
POLICY_LOSS_COEFF=${POLICY_LOSS_COEFF:-1.0}
TOTAL_STEPS=${TOTAL_STEPS:-null}
TEMPERATURE=${TEMPERATURE:-1.0}
TOP_P=${TOP_P:-0.95}
VAL_N=${VAL_N:-1}
SEED=${SEED:-1}
GRPO_CLIP_HIGH=${GRPO_CLIP_HIGH:-0.2}

# DAPO's overlong shaping: how many tokens before the longest response are penalised, linearly up to 1.
OVERLONG_BUFFER=${OVERLONG_BUFFER:-$((MAX_RESPONSE_LENGTH / 4))}

# Engine: fsdp2 or fsdp, tokens per micro-batch (null: 16384, or the longest row if that is longer, or where attention is
# sdpa), GPUs per rollout replica, its share of their memory, and whether the actor's weights and optimizer state are
# offloaded to main memory.
STRATEGY=${STRATEGY:-fsdp2}
MAX_TOKENS_PER_GPU=${MAX_TOKENS_PER_GPU:-null}
TENSOR_PARALLEL=${TENSOR_PARALLEL:-1}
GPU_MEMORY_UTILIZATION=${GPU_MEMORY_UTILIZATION:-0.7}

# Offloading: False; True, while the rollout runs; policy, always: the optimizer then runs on the CPU (fsdp2 only).
OFFLOAD=${OFFLOAD:-False}

# Steps between validations and between checkpoints (-1: never), and how many checkpoints are kept (null: all). Metrics go to the console and a file, and to SwanLab and
# Weights & Biases if SWANLAB_API_KEY and WANDB_API_KEY are set.
TEST_FREQ=${TEST_FREQ:-10}
SAVE_FREQ=${SAVE_FREQ:-10}
KEEP_CHECKPOINTS=${KEEP_CHECKPOINTS:-null}
LOGGER=${LOGGER:-[console,file${SWANLAB_API_KEY:+,swanlab}${WANDB_API_KEY:+,wandb}]}
