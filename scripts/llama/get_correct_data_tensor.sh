#!/usr/bin/env bash
# The D_pef store, on SQL: scripts/lib/methods/get_correct_data_tensor.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/get_correct_data_tensor.sh"
