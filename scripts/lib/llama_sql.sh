# Settings of Llama-SQL (paper, Table 7). Every one is an environment variable: the demo and a cluster set them differently.

PROJECT_DIR=${PROJECT_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}

# Machine: cuda or cpu; machines, and devices on each (empty: launch.sh finds out).
DEVICE=${DEVICE:-cuda}
NNODES=${NNODES:-}
GPUS_PER_NODE=${GPUS_PER_NODE:-}
PYTHON=${PYTHON:-python}

# Model and scorer. DPH_SCORER: an address, a comma-separated list, or a directory of address files.
MODEL_PATH=${MODEL_PATH:-meta-llama/Llama-3.1-8B-Instruct}
export DPH_SCORER=${DPH_SCORER:-http://127.0.0.1:5001}

# Data.
TRAIN_FILE=${TRAIN_FILE:-$PROJECT_DIR/data/sql/bird_train.parquet}
VAL_FILES=${VAL_FILES:-$PROJECT_DIR/data/sql/bird_dev.parquet,$PROJECT_DIR/data/sql/spider_dev.parquet}
DATA_DIR=${DATA_DIR:-$PROJECT_DIR/data/sql/llama3.1-8b}
SAMPLES=${SAMPLES:-$DATA_DIR/generate_data/0.jsonl}
TRAIN_CORRECT=${TRAIN_CORRECT:-$DATA_DIR/train_correct.parquet}
TRAIN_WRONG=${TRAIN_WRONG:-$DATA_DIR/train_wrong.parquet}
SFT_PT=${SFT_PT:-$DATA_DIR/8b_llama3.1_all_right.pt}
MAX_PROMPT_LENGTH=${MAX_PROMPT_LENGTH:-16000}
MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-4096}

# Pre-sampling: k samples a prompt.
SAMPLES_PER_PROMPT=${SAMPLES_PER_PROMPT:-8}

# Training: prompts a step, prompts a mini-batch, samples a prompt, D_pef rows a step.
TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-128}
MINI_BATCH_SIZE=${MINI_BATCH_SIZE:-64}
ROLLOUT_N=${ROLLOUT_N:-16}
SFT_BATCH_SIZE=${SFT_BATCH_SIZE:-256}
SFT_NORMALIZATION=${SFT_NORMALIZATION:-joint}
LEARNING_RATE=${LEARNING_RATE:-1e-6}
EPOCHS=${EPOCHS:-4}
TOTAL_STEPS=${TOTAL_STEPS:-null}
TEMPERATURE=${TEMPERATURE:-1.0}
TOP_P=${TOP_P:-0.95}
VAL_TEMPERATURE=${VAL_TEMPERATURE:-1.0}
VAL_N=${VAL_N:-1}
CLIP_HIGH=${CLIP_HIGH:-0.28}
GRPO_CLIP_HIGH=${GRPO_CLIP_HIGH:-0.2}

# Engine.
STRATEGY=${STRATEGY:-fsdp2}
MAX_TOKENS_PER_GPU=${MAX_TOKENS_PER_GPU:-$((MAX_PROMPT_LENGTH + MAX_RESPONSE_LENGTH))}
TENSOR_PARALLEL=${TENSOR_PARALLEL:-1}
GPU_MEMORY_UTILIZATION=${GPU_MEMORY_UTILIZATION:-0.7}

# Run: where it writes, how often it validates and saves (-1: never), where it logs.
OUTPUT_DIR=${OUTPUT_DIR:-$PROJECT_DIR/outputs/llama-sql}
PROJECT_NAME=${PROJECT_NAME:-dph-llama-sql}
TEST_FREQ=${TEST_FREQ:-10}
SAVE_FREQ=${SAVE_FREQ:-10}
LOGGER=${LOGGER:-[console,file]}
SEED=${SEED:-1}
