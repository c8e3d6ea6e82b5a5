# Llama-Math (paper, Table 7): Qwen2.5-Math's settings with another model, and the same clip for every method, because
# training was unstable.

MODEL_PATH=${MODEL_PATH:-meta-llama/Llama-3.1-8B-Instruct}
CLIP_HIGH=${CLIP_HIGH:-0.2}

read_settings "$LIB/qwen_math.sh"
