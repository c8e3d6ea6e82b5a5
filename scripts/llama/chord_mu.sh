#!/usr/bin/env bash
# CHORD-mu, on SQL: scripts/lib/methods/chord_mu.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/chord_mu.sh"
