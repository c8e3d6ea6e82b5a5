#!/usr/bin/env bash
# verl/dph/config/method/nsr.yaml, on math.
exec bash "$(dirname "$0")/../lib/run.sh" "$0" "$@"
