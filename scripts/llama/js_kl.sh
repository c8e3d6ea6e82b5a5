#!/usr/bin/env bash
# verl/dph/config/method/js_kl.yaml, on SQL.
exec bash "$(dirname "$0")/../lib/run.sh" "$0" "$@"
