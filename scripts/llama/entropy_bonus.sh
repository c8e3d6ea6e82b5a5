#!/usr/bin/env bash
# GRPO with an entropy bonus, on SQL: scripts/lib/methods/entropy_bonus.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/entropy_bonus.sh"
