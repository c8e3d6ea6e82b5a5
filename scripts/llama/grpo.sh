#!/usr/bin/env bash
# GRPO on all training prompts, on SQL: scripts/lib/methods/grpo.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/grpo.sh"
