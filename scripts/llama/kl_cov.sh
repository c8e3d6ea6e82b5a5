#!/usr/bin/env bash
# KL-Cov, on SQL: scripts/lib/methods/kl_cov.sh with the settings of scripts/lib/llama_sql.sh, or of SETTINGS.
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
SETTINGS=${SETTINGS:-llama_sql}
source "$LIB/methods/kl_cov.sh"
