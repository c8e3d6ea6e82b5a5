#!/usr/bin/env bash
# DPH-JS by its definition, on math: scripts/lib/methods/js_definition.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/js_definition.sh"
