#!/usr/bin/env bash
# verl/dph/config/method/zero_success.yaml, on SQL.
exec bash "$(dirname "$0")/../lib/run.sh" "$0" "$@"
