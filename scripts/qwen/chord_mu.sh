#!/usr/bin/env bash
# CHORD-mu, on math: scripts/lib/methods/chord_mu.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/chord_mu.sh"
