#!/usr/bin/env bash
# Clip-Cov, on SQL: scripts/lib/methods/clip_cov.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/clip_cov.sh"
