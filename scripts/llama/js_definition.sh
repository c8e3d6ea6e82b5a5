#!/usr/bin/env bash
# DPH-JS by its definition, on SQL: scripts/lib/methods/js_definition.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/js_definition.sh"
