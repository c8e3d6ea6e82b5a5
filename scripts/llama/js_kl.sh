#!/usr/bin/env bash
# DPH-JS, on SQL: scripts/lib/methods/js_kl.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/js_kl.sh"
