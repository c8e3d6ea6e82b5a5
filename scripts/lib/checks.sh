# What bash can see before a program starts, and before a cluster is put together for it: files and folders.

# check_files COMMAND...: refuse a command whose model folder or data file does not exist.
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
  # Where the store is written it need not be there.
  [[ ${value[actor_rollout_ref.actor.generate_sft]:-} != True ]] || value[data.sft_pt]=null
  for key in data.train_files data.val_files data.sft_files data.sft_pt; do
    [[ ${value[$key]:-null} != @(null|None) ]] || continue
    mapfile -t paths <<<"$(paths_of "${value[$key]}")"
    for path in "${paths[@]}"; do
      [[ $path == *://* || -f $path ]] || fail "$key=$path does not exist: $(origin_of "$key" "$path")."
    done
  done
}

# paths_of VALUE: a line for each path of an override's value, which may be a list and quoted.
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

# origin_of KEY FILE: how one gets it.
origin_of() {
  case $1=$2 in
    data.sft_pt=*) printf 'get_correct_data_tensor.sh writes it, SFT_PT names it' ;;
    */train_wrong.parquet | */train_correct.parquet) printf 'exact_correct_id.py writes it after offline_sampling.sh' ;;
    *) printf 'the commands of docs/data.md write it, TRAIN_FILE and VAL_FILES name it' ;;
  esac
}
