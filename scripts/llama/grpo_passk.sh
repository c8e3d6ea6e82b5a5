#!/usr/bin/env bash
# Pass@k with k = n, on SQL: scripts/lib/methods/grpo_passk.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/grpo_passk.sh"
