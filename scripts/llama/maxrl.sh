#!/usr/bin/env bash
# verl/dph/config/method/maxrl.yaml, on SQL.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../lib/run.sh" "$0" "$@"
