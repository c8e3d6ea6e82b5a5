#!/usr/bin/env bash
# GRPO with an entropy bonus, on math: scripts/lib/methods/entropy_bonus.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/entropy_bonus.sh"
