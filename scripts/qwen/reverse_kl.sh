#!/usr/bin/env bash
# verl/dph/config/method/reverse_kl.yaml, on math.
exec bash "$(dirname "$0")/../lib/run.sh" "$0" "$@"
