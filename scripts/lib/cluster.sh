# Several nodes: which one this is, and the program that joins them (docs/howto/cluster.md). The same script runs on all.

# The last SCORER_NODES ranks only score: nothing of training is placed there, and they may be lost while it runs.
SCORER_NODES=${SCORER_NODES:-0}
# This node's rank and the head's address; empty: as SLURM, Kubernetes or ModelArts says.
NODE_RANK=${NODE_RANK:-}
MASTER_ADDR=${MASTER_ADDR:-}
# This node's own address; empty: the one on the route to the head.
NODE_ADDR=${NODE_ADDR:-}
# Seconds until all nodes must be ready, Ray's port on the head, and further arguments of `ray start`. Several nodes also
# need a secret in RAY_AUTH_TOKEN, which --help does not print.
CLUSTER_WAIT_S=${CLUSTER_WAIT_S:-600}
RAY_PORT=${RAY_PORT:-6379}
RAY_START_ARGS=${RAY_START_ARGS:-}

# cluster_detect: complete NNODES, NODE_RANK, MASTER_ADDR and GPUS_PER_NODE from the scheduler, whose variables your own
# override, and set TRAIN_NODES and SCORER_ELSEWHERE, the DPH_SCORER that was given.
cluster_detect() {
  local scheduler='' size='' rank='' head='' gpus=''
  cluster_modelarts || cluster_slurm || cluster_pytorchjob || true
  if [[ -n $NNODES && $NNODES != 1 && -n $size && $NNODES != "$size" && -z $NODE_RANK ]]; then
    fail "NNODES=$NNODES, but $scheduler has $size nodes: leave NNODES to $scheduler, or set NODE_RANK and MASTER_ADDR too."
  elif [[ -z $NNODES && -n $NODE_RANK && -n $rank && $NODE_RANK != "$rank" ]]; then
    fail "NODE_RANK=$NODE_RANK, but $scheduler calls this node $rank: leave NODE_RANK to $scheduler, or set NNODES and \
MASTER_ADDR too."
  fi
  NNODES=${NNODES:-${size:-1}}
  if [[ $NNODES == 1 ]]; then
    NODE_RANK=${NODE_RANK:-0}
  else
    NODE_RANK=${NODE_RANK:-$rank}
    MASTER_ADDR=${MASTER_ADDR:-$head}
  fi
  GPUS_PER_NODE=${GPUS_PER_NODE:-${gpus:-$(cluster_devices)}}
  require "$WHOLE" 'a whole number' NNODES GPUS_PER_NODE SCORER_NODES
  ((NNODES > 0)) || fail "NNODES is 0: there is at least this node."
  ((SCORER_NODES < NNODES)) ||
    fail "SCORER_NODES=$SCORER_NODES of NNODES=$NNODES leave no node to train on: lower SCORER_NODES."
  # shellcheck disable=SC2034  # launch.sh reads it
  TRAIN_NODES=$((NNODES - SCORER_NODES))
  SCORER_ELSEWHERE=$DPH_SCORER
}

# cluster_exec COMMAND...: replace the shell by this node's launcher: the head runs COMMAND, the others its Ray and scorers.
cluster_exec() {
  local argument arguments=()
  if [[ -n ${RAY_ADDRESS:-} ]]; then
    [[ -n $SCORER_ELSEWHERE ]] || fail "RAY_ADDRESS names a Ray that runs already: name the scorers in DPH_SCORER too."
    exec "$@"
  fi
  cluster_check
  if [[ $NNODES == 1 && -n $SCORER_ELSEWHERE ]]; then
    # The command starts its own Ray, and ends it.
    exec "$@"
  fi
  for argument in $RAY_START_ARGS; do
    arguments+=(--ray-argument="$argument")
  done
  exec "$PYTHON" -m rl.cluster --nodes "$NNODES" --rank "$NODE_RANK" --head "$MASTER_ADDR" \
    --scorer-nodes "$SCORER_NODES" --gpus "$GPUS_PER_NODE" --device "$DEVICE" --node-address "$NODE_ADDR" \
    --scorer "$SCORER_ELSEWHERE" --scorer-config "$SCORER_CONFIG" --database-path "${DATABASE_PATH:-}" --scorer-port "$SCORER_PORT" \
    --ray-port "$RAY_PORT" --wait-seconds "$CLUSTER_WAIT_S" "${arguments[@]}" -- "$@"
}

# cluster_check: reject a cluster that cannot start.
cluster_check() {
  [[ -n $NODE_RANK ]] || fail "NNODES=$NNODES, and nothing says which of them this node is: set NODE_RANK to 0 on the head \
and to 1 to $((NNODES - 1)) on the others, or NNODES=1 for this machine alone."
  require "$WHOLE" 'a whole number' NODE_RANK CLUSTER_WAIT_S RAY_PORT SCORER_PORT
  ((NODE_RANK < NNODES)) || fail "NODE_RANK=$NODE_RANK is not one of 0 to $((NNODES - 1)), as NNODES=$NNODES has it."
  [[ $NNODES == 1 || -n $MASTER_ADDR ]] ||
    fail "NNODES=$NNODES, and nothing names the head: set MASTER_ADDR to the address of the node with NODE_RANK=0."
  [[ $NNODES == 1 || -n ${RAY_AUTH_TOKEN:-} ]] || fail "NNODES=$NNODES and RAY_AUTH_TOKEN is not set: give all nodes of the \
run the same secret of its own, such as one from 'openssl rand -hex 32'; Ray lets nobody in without it."
}

# cluster_has_gpu: whether this machine has an NVIDIA GPU (/dev/dxg: on WSL 2).
cluster_has_gpu() {
  compgen -G '/dev/nvidia[0-9]*' >/dev/null || [[ -e /dev/dxg ]]
}

# cluster_devices: how many processes train on this machine: one per visible GPU, or one on the CPU; 8 if the GPUs that
# DEVICE=cuda asks for are elsewhere.
cluster_devices() {
  local devices=()
  if [[ ${DEVICE:-cuda} == cpu ]]; then
    devices=(cpu)
  elif [[ -n ${CUDA_VISIBLE_DEVICES:-} ]]; then
    IFS=, read -ra devices <<<"$CUDA_VISIBLE_DEVICES"
  else
    mapfile -t devices < <(compgen -G '/dev/nvidia[0-9]*')
  fi
  if ((${#devices[@]})); then echo ${#devices[@]}; else echo 8; fi
}

# Each of these sets scheduler, size, rank, head and gpus if its scheduler's variables are set, and fails otherwise.

cluster_modelarts() {
  local hosts
  [[ -n ${MA_NUM_HOSTS:-} || -n ${VC_WORKER_HOSTS:-} ]] || return 1
  scheduler=ModelArts
  IFS=, read -ra hosts <<<"${VC_WORKER_HOSTS:-}"
  size=${MA_NUM_HOSTS:-${#hosts[@]}} rank=${VC_TASK_INDEX:-} head=${hosts[0]:-} gpus=${MA_NUM_GPUS:-}
  [[ ${#hosts[@]} == 0 || ${#hosts[@]} == "$size" ]] ||
    fail "MA_NUM_HOSTS=$size, but VC_WORKER_HOSTS names ${#hosts[@]} hosts: correct the one that is wrong."
}

cluster_slurm() {
  local hosts tasks
  [[ -n ${SLURM_JOB_ID:-} ]] || return 1
  scheduler=SLURM
  size=${SLURM_STEP_NUM_NODES:-${SLURM_JOB_NUM_NODES:-${SLURM_NNODES:-1}}} gpus=${SLURM_GPUS_ON_NODE:-}
  [[ $size != 1 && $NNODES != 1 && (-z $NNODES || -z $NODE_RANK) ]] || return 0
  # In a batch script and in salloc's shell the rank is 0 although nothing runs on the other nodes.
  [[ -n ${SLURM_STEP_ID:-} ]] || fail "the SLURM job has $size nodes, but this script was not started by srun: write \
'srun --ntasks-per-node=1 bash scripts/...', or set NNODES=1 for this node alone."
  tasks=${SLURM_STEP_NUM_TASKS:-$size}
  [[ $tasks == "$size" ]] || fail "srun started $tasks tasks on $size nodes: give it --ntasks-per-node=1."
  rank=${SLURM_NODEID:-${SLURM_PROCID:-}}
  hosts=${SLURM_STEP_NODELIST:-${SLURM_JOB_NODELIST:-}}
  head=$(scontrol show hostnames "$hosts" 2>/dev/null) || head=$(cluster_first_host "$hosts")
  head=${head%%$'\n'*}
}

# PyTorchJob sets PET_... as torchrun reads it, and WORLD_SIZE, which counts processes if nprocPerNode is set.
cluster_pytorchjob() {
  [[ -n ${PET_NNODES:-} || -n ${WORLD_SIZE:-} ]] || return 1
  scheduler=PyTorchJob
  size=${PET_NNODES:-$WORLD_SIZE} rank=${PET_NODE_RANK:-${RANK:-}} head=${PET_MASTER_ADDR:-}
  [[ -n $NNODES || $size =~ ^[0-9]+$ ]] ||
    fail "the PyTorchJob has '$size' nodes: give it a fixed number of replicas, without an elasticPolicy."
}

# cluster_first_host LIST: the first host of a SLURM node list such as node[003-006,9],other7
cluster_first_host() {
  if [[ $1 =~ ^([^][,]*)\[([0-9]+)[^]]*\]([^,]*) ]]; then
    printf '%s' "${BASH_REMATCH[1]}${BASH_REMATCH[2]}${BASH_REMATCH[3]}"
  else
    printf '%s' "${1%%,*}"
  fi
}
