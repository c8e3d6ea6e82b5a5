# Where a script runs. Every setting is an environment variable: `VARIABLE=VALUE bash scripts/...`.

# cuda or cpu; empty: cuda if this machine has a GPU. Machines, and devices on each; empty: as the cluster says, else 1
# and the GPUs that this machine has (1 without a GPU, for a process on the CPU). The environment's Python.
DEVICE=${DEVICE:-}
NNODES=${NNODES:-}
GPUS_PER_NODE=${GPUS_PER_NODE:-}
PYTHON=${PYTHON:-python}

# Before a run on GPUs the script estimates whether it fits and chooses what you leave open of OFFLOAD, TENSOR_PARALLEL,
# GPU_MEMORY_UTILIZATION and MAX_TOKENS_PER_GPU so that it does (dph plan). check: one that does not fit is not started;
# ignore: it is started all the same. The GPU type; empty: this machine's, else a800.
PLAN=${PLAN:-check}
GPU_TYPE=${GPU_TYPE:-}

# Scorer servers: an address, a comma-separated list, or a directory of address files. Empty: the run's own, with
# SCORER_CONFIG and on SCORER_PORT (0: a free port), which end with the run.
DPH_SCORER=${DPH_SCORER:-}
SCORER_PORT=${SCORER_PORT:-0}
