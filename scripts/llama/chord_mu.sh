#!/usr/bin/env bash
# verl/dph/config/method/chord_mu.yaml, on SQL.
exec bash "$(dirname "$0")/../lib/run.sh" "$0" "$@"
