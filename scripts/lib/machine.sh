# Where a script runs. Every setting is an environment variable: `VARIABLE=VALUE bash scripts/...`.

# cuda or cpu. Machines, and devices on each; empty: as many as the cluster says, else 1 and 8.
DEVICE=${DEVICE:-cuda}
NNODES=${NNODES:-}
GPUS_PER_NODE=${GPUS_PER_NODE:-}
PYTHON=${PYTHON:-python}

# Scorer servers: an address, a comma-separated list, or a directory of address files. Empty: those of SCORER_CONFIG and
# SCORER_PORT on the machines of the run.
DPH_SCORER=${DPH_SCORER:-}
