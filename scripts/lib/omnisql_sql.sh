# OmniSQL-32B (paper, Table 7): Llama-SQL's settings with another model, which needs more memory.

MODEL_PATH=${MODEL_PATH:-seeklhy/OmniSQL-32B}

# Engine: for the paper's 32 GPUs with 80 GB (NNODES=4); not tried.
TENSOR_PARALLEL=${TENSOR_PARALLEL:-4}
OFFLOAD=${OFFLOAD:-True}

read_settings "$LIB/llama_sql.sh"
