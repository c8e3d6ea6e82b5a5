#!/usr/bin/env bash
# verl/dph/config/method/get_correct_data_tensor.yaml, on math.
exec bash "$(dirname "$0")/../lib/run.sh" "$0" "$@"
