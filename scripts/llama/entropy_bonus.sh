#!/usr/bin/env bash
# verl/dph/config/method/entropy_bonus.yaml, on SQL.
exec bash "$(dirname "$0")/../lib/run.sh" "$0" "$@"
