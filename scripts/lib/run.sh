#!/usr/bin/env bash
# run.sh SCRIPT ARGUMENTS...: find out which node this is, then start the launcher, `python -m rl.launch`.
# Experiments and methods are files of verl/dph/config; docs/reference/scripts.md lists the variables.

set -euo pipefail
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHON=${PYTHON:-python} PROJECT_DIR=${PROJECT_DIR:-$(cd "$LIB/../.." && pwd)}

# fail SENTENCE: print it and exit with code 2.
fail() {
  printf 'Error: %s\n' "$1" >&2
  exit 2
}

# read_settings FILE: for a user's own settings, read the rest from an experiment (llama_sql) or from another such file.
read_settings() {
  SETTINGS=${1##*/}
  SETTINGS=${SETTINGS%.sh}
  if [[ -f $1 ]]; then source "$1"; fi
}

source "$LIB/cluster.sh"
"$PYTHON" -c 'from importlib.util import find_spec; verl = find_spec("verl"); exit(not (verl and verl.origin))' 2>/dev/null ||
  fail "$PYTHON has no verl: activate the environment (make install, then . .venv/bin/activate), or name its Python in PYTHON."
if [[ ${SETTINGS:-} == *.sh && -f $SETTINGS ]]; then
  set -a
  source "$SETTINGS"
  set +a
  [[ $SETTINGS != *.sh ]] || fail "$SETTINGS names no experiment: end it with read_settings \"\$LIB/llama_sql.sh\"."
fi
cluster_detect
PYTHONPATH=$PROJECT_DIR${PYTHONPATH:+:$PYTHONPATH} exec "$PYTHON" -m rl.launch "$@"
