#!/usr/bin/env bash
# Pre-sampling, on SQL: scripts/lib/methods/offline_sampling.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/offline_sampling.sh"
