#!/usr/bin/env bash
# DPH-F, on math: scripts/lib/methods/forward_kl.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/forward_kl.sh"
