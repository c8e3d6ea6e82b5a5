#!/usr/bin/env bash
# KL-Cov, on math: scripts/lib/methods/kl_cov.sh with the settings of scripts/lib/qwen_math.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-qwen_math}
source "$LIB/methods/kl_cov.sh"
