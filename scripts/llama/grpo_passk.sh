#!/usr/bin/env bash
# verl/dph/config/method/grpo_passk.yaml, on SQL.
exec bash "$(dirname "$0")/../lib/run.sh" "$0" "$@"
