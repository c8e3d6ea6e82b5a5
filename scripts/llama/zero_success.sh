#!/usr/bin/env bash
# GRPO on zero-success prompts, on SQL: scripts/lib/methods/zero_success.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/zero_success.sh"
