# The plan of a run, before it starts: does it fit on the GPUs (docs/howto/plan.md)?

# plan COMMAND...: into PLANNED, the command with engine settings that fit where the defaults do not. Fails if nothing that
# was left open can make it fit; a dry run only says so. That a plan cannot be made stops nothing.
# shellcheck disable=SC2034  # launch.sh reads PLANNED
plan() {
  local name left_open=() only_warn=() words status=0
  PLANNED=("$@")
  [[ $PLAN == @(check|ignore) ]] || fail "PLAN is '$PLAN': give check, or ignore to start what does not fit."
  if ! command -v "$PYTHON" >/dev/null; then
    echo "Plan: not made: $PYTHON was not found." >&2
    return 0
  fi
  for name in "${!DEFAULTS[@]}"; do
    [[ ${!name} != "${DEFAULTS[$name]}" ]] || left_open+=("$name")
  done
  [[ -z $DRY_RUN && $PLAN == check ]] || only_warn=(--only-warn)
  words=$(PYTHONPATH=$PROJECT_DIR${PYTHONPATH:+:$PYTHONPATH} "$PYTHON" -m rl.planning.for_script \
    --gpu="$GPU_TYPE" --open="${left_open[*]}" "${only_warn[@]}" -- "$@") || status=$?
  case $status in
    0) eval "PLANNED=($words)" ;;
    2) exit 2 ;;
    *) echo "Plan: not made: $PYTHON -m rl.planning.for_script failed." >&2 ;;
  esac
}
