#!/usr/bin/env bash
# The D_pef store, on math: scripts/lib/methods/get_correct_data_tensor.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/get_correct_data_tensor.sh"
