# Llama-Math (paper, Table 7): Qwen2.5-Math's settings with another model, and the same clip for every method, because
# training was unstable.

MODEL_PATH=${MODEL_PATH:-meta-llama/Llama-3.1-8B-Instruct}
DATA_DIR=${DATA_DIR:-$PROJECT_DIR/data/math/llama3.1-8b}
CLIP_HIGH=${CLIP_HIGH:-0.2}
OUTPUT_DIR=${OUTPUT_DIR:-$PROJECT_DIR/outputs/llama-math}
PROJECT_NAME=${PROJECT_NAME:-dph-llama-math}

read_settings "$LIB/qwen_math.sh"
