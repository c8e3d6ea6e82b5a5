#!/usr/bin/env bash
# run.sh SCRIPT ARGUMENTS...: find out which node this is, then start the launcher, `python -m rl.launch`. SCRIPT is a
# launch script's path or, from dph, a method's name.
# Experiments and methods are files of verl/dph/config; docs/reference/cli.md lists the variables.

set -euo pipefail
unset CDPATH # with it, cd prints the folder
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHON=${PYTHON:-python}
ROOT=$(cd "$LIB/../.." && pwd)

# fail SENTENCE: print it and exit with code 2.
fail() {
  printf 'Error: %s\n' "$1" >&2
  exit 2
}

source "$LIB/cluster.sh"
"$PYTHON" -c 'from importlib.util import find_spec; verl = find_spec("verl"); exit(not (verl and verl.origin))' 2>/dev/null ||
  fail "$PYTHON has no verl: activate the environment (make install, then . .venv/bin/activate), or name its Python in PYTHON."
cluster_detect
PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH} exec "$PYTHON" -m rl.launch "$@"
