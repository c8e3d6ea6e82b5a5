#!/usr/bin/env bash
# verl/dph/config/method/forward_kl_cap.yaml, on math.
exec bash "$(dirname "$0")/../lib/run.sh" "$0" "$@"
