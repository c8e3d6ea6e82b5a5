#!/usr/bin/env bash
# W-REINFORCE, on math: scripts/lib/methods/w_reinforce.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/w_reinforce.sh"
