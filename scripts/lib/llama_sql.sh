# Llama-SQL (paper, Table 7).

MODEL_PATH=${MODEL_PATH:-meta-llama/Llama-3.1-8B-Instruct}
name_model sql

# If DPH_SCORER is empty: configuration and databases (empty: those of the configuration) of the scorers.
SCORER_CONFIG=${SCORER_CONFIG:-$PROJECT_DIR/rl/scorer/sql.yaml}
DATABASE_PATH=${DATABASE_PATH:-}

# Data: the prompts to pre-sample, the baselines' training prompts, the validation files (comma-separated; VAL_FILES= for
# no validation), the folder of D_exp and D_pef, and the D_pef store.
TRAIN_FILE=${TRAIN_FILE:-$PROJECT_DIR/data/sql/bird_train.parquet}
BASELINE_FILES=${BASELINE_FILES:-$TRAIN_FILE}
VAL_FILES=${VAL_FILES-$PROJECT_DIR/data/sql/bird_dev.parquet,$PROJECT_DIR/data/sql/spider_dev.parquet}
DATA_DIR=${DATA_DIR:-$PROJECT_DIR/data/sql/$MODEL_NAME}
[[ $MODEL_NAME != llama3.1-8b ]] || SFT_PT=${SFT_PT:-$DATA_DIR/8b_llama3.1_all_right.pt}
SFT_PT=${SFT_PT:-$DATA_DIR/all_right.pt}
MAX_PROMPT_LENGTH=${MAX_PROMPT_LENGTH:-16000}
MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-4096}

# Training. DAPO drops prompts whose samples all have the same reward (partial credit counts).
LEARNING_RATE=${LEARNING_RATE:-1e-6}
EPOCHS=${EPOCHS:-4}
CLIP_HIGH=${CLIP_HIGH:-0.28}
VAL_TEMPERATURE=${VAL_TEMPERATURE:-1.0}
DAPO_METRIC=${DAPO_METRIC:-reward}

# Run.
OUTPUT_DIR=${OUTPUT_DIR:-$PROJECT_DIR/outputs/$GROUP}
PROJECT_NAME=${PROJECT_NAME:-dph-$GROUP}
