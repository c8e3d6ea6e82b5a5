#!/usr/bin/env bash
# DAPO on all training prompts, on SQL: scripts/lib/methods/dapo.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/dapo.sh"
