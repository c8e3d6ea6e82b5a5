#!/usr/bin/env bash
# verl/dph/config/method/w_reinforce.yaml, on math.
exec bash "$(dirname "$0")/../lib/run.sh" "$0" "$@"
