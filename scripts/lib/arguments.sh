# Command line of every script: NAME and numbers by position, then Hydra overrides; --dry-run[=config] and --help anywhere.

# fail SENTENCE: print it and exit with code 2.
fail() {
  printf 'Error: %s\n' "$1" >&2
  exit 2
}

# read_arguments ARGUMENTS...: into the variables that POSITIONAL names, OVERRIDES, DRY_RUN and HELP.
# shellcheck disable=SC2034  # launch.sh reads them
read_arguments() {
  local argument previous='' position
  OVERRIDES=() DRY_RUN='' HELP=''
  for argument in "$@"; do
    case $argument in
      --dry-run | --dry-run=command) DRY_RUN='command' ;;
      --dry-run=config) DRY_RUN=config ;;
      --dry-run=* | --dry* | -dry*) fail "$argument is unknown: did you mean --dry-run or --dry-run=config?" ;;
      -h | --help) HELP=yes ;;
      *) OVERRIDES+=("$argument") ;;
    esac
  done
  [[ -z $HELP ]] || return 0
  for position in "${POSITIONAL[@]}"; do
    if ((${#OVERRIDES[@]} == 0)) || is_override "${OVERRIDES[0]}"; then break; fi
    set_position "$position" "${OVERRIDES[0]}"
    OVERRIDES=("${OVERRIDES[@]:1}")
  done
  [[ ${POSITIONAL[0]} != NAME || -n $NAME ]] || fail "the run has no NAME; $(usage)"
  for argument in "${OVERRIDES[@]}"; do
    [[ ! $argument =~ ^[A-Z][A-Z_]*= ]] || fail "$argument is a setting, an environment variable: put it before bash, $argument bash $0 ..."
    is_override "$argument" || [[ $previous == -* ]] || fail "'$argument' is neither KEY=VALUE nor a positional argument; $(usage)"
    previous=$argument
  done
}

# is_override ARGUMENT: whether it is Hydra's: KEY=VALUE, +KEY=VALUE, ~KEY, or an option.
is_override() {
  [[ $1 == *=* || $1 == "~"* || $1 == -[!0-9.]* ]]
}

# set_position POSITION VALUE
# shellcheck disable=SC2034  # launch.sh reads SEED
set_position() {
  case $1 in
    NAME | '[NAME]')
      ! is_number "$2" || fail "NAME is '$2', a number: the run's NAME comes first; $(usage)"
      [[ $2 =~ ^[A-Za-z0-9_][A-Za-z0-9_.-]*$ ]] || fail "NAME is '$2': it names a folder; use letters, digits, _ . and -."
      NAME=$2
      ;;
    '[sft_loss_coeff]')
      is_number "$2" || fail "sft_loss_coeff is '$2': give a number, 0 or more, such as $SFT_LOSS_COEFF; $(usage)"
      SFT_LOSS_COEFF=$2
      ;;
    '[alpha]')
      is_number "$2" || fail "alpha is '$2': give a number between 0 and 1, such as $ALPHA; $(usage)"
      ALPHA=$2
      ;;
    '[seed]')
      [[ $2 =~ ^(0|[1-9][0-9]*)$ ]] || fail "seed is '$2': give a whole number; $(usage)"
      SEED=$2
      ;;
  esac
}

COUNT='[1-9][0-9]{0,8}'
# shellcheck disable=SC2034  # launch.sh and cluster.sh read it
WHOLE="0|$COUNT"
NUMBER='([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?'

is_number() {
  [[ $1 =~ ^$NUMBER$ ]]
}

# require PATTERN WANTED NAME...: reject a setting whose value does not match; those of other methods are unset.
require() {
  local name
  for name in "${@:3}"; do
    [[ ${!name-} =~ ^($1)$ || -z ${!name+set} ]] || fail "$name is '${!name}': give $2."
  done
}

usage() {
  printf 'usage: bash %s %s [--dry-run[=config]] [--help] [KEY=VALUE ...]' "$0" "${POSITIONAL[*]}"
}

# print_help FILE...: the usage, the first comment of the first file, and all files' settings with their current values
# under their comments. Of a file's paragraphs, those are shown that have a setting, and the first.
print_help() {
  local file line paragraph setting
  declare -A seen=()
  printf '%s\n\n' "$(usage)"
  sed '/^#/!Q; s/^# //' "$1"
  printf '\nSettings, as environment variables, with their current values:\n'
  for file in "$@"; do
    paragraph='' setting=first
    [[ $file != "$1" ]] || setting=''
    while IFS= read -r line; do
      if [[ $line =~ ^([A-Z][A-Z_]*)=\$\{ ]]; then
        setting=${BASH_REMATCH[1]}
        [[ -n ${seen[$setting]:-} ]] || paragraph+="  $setting=${!setting}"$'\n'
        seen[$setting]=yes
      elif [[ $line == \#* ]]; then
        paragraph+=$line$'\n'
      elif [[ -z $line ]]; then
        [[ -z $setting ]] || printf '\n%s' "$paragraph"
        paragraph='' setting=''
      fi
    done < <(cat "$file" && echo)
  done
}
