#!/usr/bin/env bash
# The alpha divergence, on math: scripts/lib/methods/alpha.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/alpha.sh"
