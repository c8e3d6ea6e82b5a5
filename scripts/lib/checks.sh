# Checks before a program, or a cluster for it, starts: the environment, files and folders.

# check_environment: reject a Python without verl; what a checkout has below verl/ alone is no package.
check_environment() {
  "$PYTHON" -c 'from importlib.util import find_spec; verl = find_spec("verl"); exit(not (verl and verl.origin))' 2>/dev/null ||
    fail "$PYTHON has no verl: activate the environment (make install, then . .venv/bin/activate), or name its Python in PYTHON."
}

# check_files COMMAND...: reject a command whose model folder or data file does not exist.
check_files() {
  local argument key path paths
  declare -A value=()
  for argument in "$@"; do
    key=${argument%%=*}
    [[ $argument != *=* ]] || value[${key##+}]=${argument#*=}
  done
  path=$(paths_of "${value[actor_rollout_ref.model.path]}")
  if looks_local "$path" && [[ ! -d $path ]]; then
    fail "the model folder $path does not exist: give a folder or a name on the Hugging Face Hub in MODEL_PATH."
  fi
  # The command that writes the store does not need it.
  [[ ${value[actor_rollout_ref.actor.generate_sft]:-} != True ]] || value[data.sft_pt]=null
  for key in data.train_files data.val_files data.sft_files data.sft_pt; do
    [[ ${value[$key]:-null} != @(null|None) ]] || continue
    mapfile -t paths <<<"$(paths_of "${value[$key]}")"
    for path in "${paths[@]}"; do
      [[ $path == *://* || -f $path ]] || fail "$key=$path does not exist: $(origin_of "$key" "$path")."
    done
  done
}

# paths_of VALUE: the paths of an override's value, a list or quoted, one per line.
paths_of() {
  local text=$1 path
  if [[ $text == \[*\] ]]; then
    text=${text:1:-1}
    if [[ $text == \'* ]]; then text=${text//\',\'/$'\n'}; else text=${text//,/$'\n'}; fi
  fi
  while IFS= read -r path; do
    path=${path# }
    path=${path#[\'\"]}
    path=${path%[\'\"]}
    printf '%s\n' "${path/#\~/$HOME}"
  done <<<"$text"
}

looks_local() {
  [[ $1 == [/.~]* || $1 == */*/* ]] && [[ $1 != *://* ]]
}

# origin_of KEY FILE: how to get it.
origin_of() {
  case $1=$2 in
    data.sft_pt="$FOREIGN_PT") printf 'get_correct_data_tensor.sh writes it with data.sft_responses=FILE, FOREIGN_PT names it' ;;
    data.sft_pt=*) printf 'get_correct_data_tensor.sh writes it, SFT_PT names it' ;;
    data.val_files=*) printf 'the commands of docs/howto/data.md write it, VAL_FILES names it; VAL_FILES= trains without validation' ;;
    */unsolved/train_wrong.parquet)
      printf 'dph split --threshold 1 --keep-zero --out %s writes it after offline_sampling.sh, TRAIN_UNSOLVED names it' \
        "${2%/*}"
      ;;
    */train_wrong.parquet | */train_correct.parquet) printf 'exact_correct_id.py writes it after offline_sampling.sh' ;;
    *) printf 'the commands of docs/howto/data.md write it, TRAIN_FILE names it' ;;
  esac
}
