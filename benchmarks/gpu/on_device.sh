#!/usr/bin/env bash
# The check on one GPU (README.md): bash on_device.sh unpack|first|long|vllm [--small]; at most 9 minutes a call.
#   unpack  put together the parts of the kit that have arrived, and say which are missing
#   first   versions, tests marked gpu, log-probs, three updates on CPU and GPU compared, 1B benchmark
#   long    the 1B benchmark with long rows, and with padded ones
#   vllm    vLLM alone, then the demo with SmolLM2-135M; a call goes on where the last one ended
# In a kit (make gpu-kit) it unpacks first; in a checkout it uses PYTHON's packages. OUT gets PART.log, PART.txt (exit
# codes and seconds) and JSON reports as they come. It continues after a failed step. --small: sizes for a CPU, and the
# demo's tiny model in SmolLM2's place.
set -uo pipefail

PART=${1:-}
SMALL=${2:-}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PROJECT=$(dirname "$(dirname "$HERE")")
PYTHON=${PYTHON:-python3}
OUT=${OUT:-outputs/gpu/reports}
WORK=${WORK:-/tmp/dph_gpu_check}
LIMIT_S=${LIMIT_S:-530}

fail() {
  printf 'Error: %s\n' "$1" >&2
  exit 2
}

# step NAME SECONDS COMMAND...: run it, append its output to PART.log, print the end of it. Sets STATUS; it succeeds with
# the exit code EXPECTED, by default 0.
step() {
  local name=$1 seconds=$2 start=$SECONDS
  shift 2
  # On a CPU a step has no time limit of its own.
  [[ -z $SMALL ]] && ((seconds <= LIMIT_S - SECONDS)) || seconds=$((LIMIT_S - SECONDS))
  if ((seconds < 10)); then
    STATUS=1 FAILED=1
    printf '%s: not run, the time is over\n' "$name" >>"$OUT/$PART.txt"
    return
  fi
  timeout -k 10 "$seconds" "$@" >"$WORK/$name.log" 2>&1
  STATUS=$?
  ((STATUS == ${EXPECTED:-0})) || FAILED=1
  printf '%s: exit %d, %d s\n' "$name" "$STATUS" $((SECONDS - start)) >>"$OUT/$PART.txt"
  printf '== %s (exit %d, %d s)\n' "$name" "$STATUS" $((SECONDS - start))
  { printf '== %s\n' "$name" && cat "$WORK/$name.log"; } >>"$OUT/$PART.log"
  grep -vE 'Warning|warn\(|it/s\]|(round|function|variant)/s\]' "$WORK/$name.log" | tail -n 16 | cut -c1-600
}

# unpack: keep the parts that have arrived by their checksums, and unpack every archive that is complete to
# $WORK/ARCHIVE. Prints a line per archive. MISSING: the names of the archives that are not complete.
unpack() {
  local sum part archive parts missing
  mkdir -p "$WORK/parts"
  while read -r sum part; do
    [[ -e $HERE/$part && ! -e $WORK/parts/$sum ]] || continue
    cp "$HERE/$part" "$WORK/parts/arriving"
    if [[ $(sha256sum <"$WORK/parts/arriving") == "$sum "* ]]; then
      mv "$WORK/parts/arriving" "$WORK/parts/$sum"
    else
      printf '%s is damaged.\n' "$part"
    fi
  done <"$HERE/parts.sha256"
  MISSING=''
  for archive in project base vllm model; do
    parts=() missing=''
    while read -r sum part; do
      [[ $part == "$archive".* ]] || continue
      parts+=("$WORK/parts/$sum")
      [[ -e $WORK/parts/$sum ]] || missing+=" $part"
    done <"$HERE/parts.sha256"
    if [[ -n $missing ]]; then
      MISSING+=" $archive"
      printf '%s: missing, carry%s\n' "$archive" "$missing"
      continue
    fi
    if [[ "${parts[*]}" != "$(cat "$WORK/$archive/.unpacked" 2>/dev/null)" ]]; then
      rm -rf "${WORK:?}/$archive"
      cat "${parts[@]}" | "$PYTHON" -c 'import sys, tarfile; tarfile.open(fileobj=sys.stdin.buffer, mode="r|xz").extractall(sys.argv[1])' \
        "$WORK/$archive" || fail "$archive cannot be unpacked."
      printf '%s' "${parts[*]}" >"$WORK/$archive/.unpacked"
    fi
    printf '%s: there\n' "$archive"
  done
  printf -- '-- unpacked after %d s\n' "$SECONDS"
}

# use_kit: the project and the packages that the kit has, beside PYTHON's own.
use_kit() {
  [[ $MISSING != *@(project|base)* && ($PART != vllm || -z $MISSING) ]] || fail "$PART needs more of the kit:$MISSING."
  PROJECT=$WORK/project
  # verl is not a namespace package: its folder gets ours.
  [[ ! -d $WORK/base/verl ]] || ln -sfn "$PROJECT/verl/dph" "$WORK/base/verl/dph"
  # An image may have no bytecode and keep Python from writing it: each of a run's processes would compile torch and
  # transformers again, for some 10 s.
  unset PYTHONDONTWRITEBYTECODE
  [[ -n $SMALL ]] || export PYTHONPYCACHEPREFIX=$WORK/bytecode
  export PYTHONPATH=$PROJECT:$WORK/vllm:$WORK/base
  # pip takes the model from here and compares its checksum.
  export PIP_NO_INDEX=1 PIP_FIND_LINKS=$WORK/model
}

# benchmark NAME SECONDS ARGUMENT...: run benchmarks/actor_update.py on the 1B shape; with --small on the tiny one.
benchmark() {
  local name=$1 seconds=$2 small=()
  shift 2
  [[ -z $SMALL ]] || small=(--shape tiny --rows 8 --prompt 8 --response 24 --micro-batch-tokens 512 --rounds 1 --variants sampled)
  step "$name" "$seconds" "$PYTHON" "$PROJECT/benchmarks/actor_update.py" --json "$OUT/$name.json" --shape 1b \
    --rows 32 --prompt 512 --response 512 --micro-batch-tokens 16384 --rounds 4 "$@" "${small[@]}"
}

first() {
  [[ -n $SMALL ]] || step gpu 20 nvidia-smi
  step versions 60 "$PYTHON" "$CHECKS/versions.py"
  # The CPU computes its results while the GPU works.
  VERL_PLATFORM=cpu CUDA_VISIBLE_DEVICES='' OMP_NUM_THREADS=4 timeout "$([[ -n $SMALL ]] && echo "$LIMIT_S" || echo 250)" "$PYTHON" "$CHECKS/check_update.py" \
    "$WORK/tiny" "$OUT/update_cpu.json" fp32 ${SMALL:+"$SMALL"} >"$WORK/update_cpu.log" 2>&1 &
  local on_cpu=$!
  [[ -n $SMALL ]] || step tests 150 "$PYTHON" -m pytest -q -p no:cacheprovider -m gpu "$PROJECT/tests/objective" "$PROJECT/tests/hf_rollout"
  local sizes=(--tokens 20096 --vocabulary 128256 --rounds 2)
  [[ -z $SMALL ]] || sizes=(--tokens 64 --vocabulary 512 --rounds 1)
  step log_probs 120 "$PYTHON" "$PROJECT/benchmarks/log_probs.py" "${sizes[@]}"
  wait "$on_cpu" || cat "$WORK/update_cpu.log"
  step update_fp32 90 "$PYTHON" "$CHECKS/check_update.py" "$WORK/tiny" "$OUT/update_fp32.json" fp32 --expected "$OUT/update_cpu.json" ${SMALL:+"$SMALL"}
  step update_bf16 90 "$PYTHON" "$CHECKS/check_update.py" "$WORK/tiny" "$OUT/update_bf16.json" bf16 --expected "$OUT/update_cpu.json" ${SMALL:+"$SMALL"}
  benchmark actor_update_1b 240
}

long() {
  benchmark actor_update_1b_long 340 --rows 16 --prompt 3072 --response 1024 --rounds 3
  benchmark actor_update_1b_padded 180 actor_rollout_ref.model.use_remove_padding=False
}

# once NAME SECONDS COMMAND...: a step that is not repeated once it has succeeded. Copies the reports to OUT.
once() {
  if [[ -e $WORK/done/$1 ]]; then
    printf '%s: done before\n' "$1" >>"$OUT/$PART.txt"
  else
    step "$@"
    ((STATUS != ${EXPECTED:-0})) || touch "$WORK/done/$1"
  fi
  cp "$WORK"/*.json "$WORK"/demo/reports/* "$OUT" 2>/dev/null
}

vllm() {
  local demo=("$PYTHON" "$CHECKS/check_pretrained.py" "$WORK/demo" ${SMALL:+"$SMALL"}) memory=''
  mkdir -p "$WORK/done"
  if [[ -z $SMALL ]]; then
    nvidia-smi --query-gpu=timestamp,memory.used,utilization.gpu --format=csv,noheader,nounits -lms 500 >"$OUT/memory.csv" &
    memory=$!
  fi
  once versions 60 "$PYTHON" "$CHECKS/versions.py"
  once alone 200 "$PYTHON" "$CHECKS/check_vllm.py" "$WORK/vllm.json" ${SMALL:+"$SMALL"}
  once store 300 "${demo[@]}" --until store
  once maxrl 180 "${demo[@]}" --until train_maxrl
  # Killed with SIGKILL.
  EXPECTED=137 once stopped 150 "${demo[@]}" --until train_dph_js --stop-at "$([[ -n $SMALL ]] && echo 5 || echo 7)"
  [[ -e $WORK/done/dph_js ]] || sleep 5 # for the killed run's processes to end
  once dph_js 180 "${demo[@]}" --until train_dph_js
  once report 240 "${demo[@]}" --until evaluate_base
  once hf 150 "${demo[@]}" --until train_maxrl_hf
  [[ -z $memory ]] || kill "$memory"
  ((FAILED == 0)) || tail -n 60 "$WORK"/demo/logs/*.log >>"$OUT/$PART.log"
}

[[ $PART == @(unpack|first|long|vllm) ]] || fail "name a part: bash on_device.sh unpack|first|long|vllm [--small]."
[[ -z $SMALL || $SMALL == --small ]] || fail "$SMALL is unknown: use --small, or nothing on a GPU."
mkdir -p "$OUT" "$WORK"
OUT=$(cd "$OUT" && pwd)
rm -f "$OUT/$PART.log" "$OUT/$PART.txt"
export PYTHON PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 VERL_LOGGING_LEVEL=WARN PYTHONWARNINGS=ignore VLLM_NO_USAGE_STATS=1
[[ -z $SMALL ]] || export VERL_PLATFORM=cpu
FAILED=0
if [[ -e $HERE/parts.sha256 ]]; then
  unpack
  [[ $PART != unpack ]] || exit 0
  use_kit
elif [[ $PART == unpack ]]; then
  fail "$HERE is no kit: make gpu-kit writes one."
fi
CHECKS=$PROJECT/benchmarks/gpu
"$PART"
printf -- '-- after %d s\n' "$SECONDS"
cat "$OUT/$PART.txt"
exit "$FAILED"
