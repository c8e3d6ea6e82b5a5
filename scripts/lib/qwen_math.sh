# Qwen2.5-Math (paper, Table 7). The model has 4096 positions: prompt and response share them.

MODEL_PATH=${MODEL_PATH:-Qwen/Qwen2.5-Math-7B}
name_model math

# If DPH_SCORER is empty: configuration of the scorers.
SCORER_CONFIG=${SCORER_CONFIG:-$PROJECT_DIR/rl/scorer/math.yaml}

# Data: the prompts to pre-sample, the baselines' training prompts (without those that no sample solved, which the split
# drops), the validation files (comma-separated; VAL_FILES= for no validation), the folder of D_exp and D_pef, and the
# D_pef store.
TRAIN_FILE=${TRAIN_FILE:-$PROJECT_DIR/data/math/dapo_train.parquet}
DATA_DIR=${DATA_DIR:-$PROJECT_DIR/data/math/$MODEL_NAME}
BASELINE_FILES=${BASELINE_FILES:-$DATA_DIR/train_wrong.parquet,$DATA_DIR/train_correct.parquet}
TESTS=("$PROJECT_DIR"/data/math/{aime24,aime25,amc23,math500,olympiadbench,minerva_math,college_math}.parquet)
VAL_FILES=${VAL_FILES-$(IFS=, && echo "${TESTS[*]}")}
SFT_PT=${SFT_PT:-$DATA_DIR/all_right.pt}
MAX_PROMPT_LENGTH=${MAX_PROMPT_LENGTH:-2048}
MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-2048}

# Training. DAPO drops prompts whose samples are all correct or all wrong.
LEARNING_RATE=${LEARNING_RATE:-2e-7}
EPOCHS=${EPOCHS:-8}
CLIP_HIGH=${CLIP_HIGH:-0.28}
VAL_TEMPERATURE=${VAL_TEMPERATURE:-0.6}
DAPO_METRIC=${DAPO_METRIC:-acc}

# Run.
OUTPUT_DIR=${OUTPUT_DIR:-$PROJECT_DIR/outputs/$GROUP}
PROJECT_NAME=${PROJECT_NAME:-dph-$GROUP}
