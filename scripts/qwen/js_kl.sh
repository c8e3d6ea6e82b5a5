#!/usr/bin/env bash
# DPH-JS, on math: scripts/lib/methods/js_kl.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/js_kl.sh"
