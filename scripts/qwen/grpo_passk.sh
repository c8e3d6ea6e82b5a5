#!/usr/bin/env bash
# Pass@k with k = n, on math: scripts/lib/methods/grpo_passk.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/grpo_passk.sh"
