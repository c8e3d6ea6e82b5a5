#!/usr/bin/env bash
# Pre-sampling, on math: scripts/lib/methods/offline_sampling.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/offline_sampling.sh"
