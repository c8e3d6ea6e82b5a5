#!/usr/bin/env bash
# W-REINFORCE, on SQL: scripts/lib/methods/w_reinforce.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/w_reinforce.sh"
