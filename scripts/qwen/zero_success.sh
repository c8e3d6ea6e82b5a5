#!/usr/bin/env bash
# GRPO on zero-success prompts, on math: scripts/lib/methods/zero_success.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/zero_success.sh"
