#!/usr/bin/env bash
# DAPO on all training prompts, on math: scripts/lib/methods/dapo.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/dapo.sh"
