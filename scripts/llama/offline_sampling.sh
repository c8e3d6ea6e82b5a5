#!/usr/bin/env bash
# verl/dph/config/method/offline_sampling.yaml, on SQL.
exec bash "$(dirname "$0")/../lib/run.sh" "$0" "$@"
