# Find out which node of a scheduler's job this is (docs/howto/cluster.md). The same script runs on all nodes.

# cluster_detect: complete NNODES, NODE_RANK, MASTER_ADDR and GPUS_PER_NODE from the scheduler. Your own values have
# precedence.
cluster_detect() {
  local scheduler='' size='' rank='' head='' gpus=''
  export NNODES=${NNODES:-} NODE_RANK=${NODE_RANK:-} MASTER_ADDR=${MASTER_ADDR:-} GPUS_PER_NODE=${GPUS_PER_NODE:-}
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
  GPUS_PER_NODE=${GPUS_PER_NODE:-$gpus}
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
