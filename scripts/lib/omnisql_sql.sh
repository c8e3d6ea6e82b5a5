# OmniSQL-32B (paper, Table 7): Llama-SQL's settings with another model, which needs more memory.

MODEL_PATH=${MODEL_PATH:-seeklhy/OmniSQL-32B}
DATA_DIR=${DATA_DIR:-$PROJECT_DIR/data/sql/omnisql-32b}
SFT_PT=${SFT_PT:-$DATA_DIR/all_right.pt}
OUTPUT_DIR=${OUTPUT_DIR:-$PROJECT_DIR/outputs/omnisql-sql}
PROJECT_NAME=${PROJECT_NAME:-dph-omnisql-sql}

# Engine: for the paper's 32 GPUs with 80 GB (NNODES=4); not tried.
TENSOR_PARALLEL=${TENSOR_PARALLEL:-4}
OFFLOAD=${OFFLOAD:-True}

read_settings "$LIB/llama_sql.sh"
