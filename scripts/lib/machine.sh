# Where a script runs. Every setting is an environment variable: `VARIABLE=VALUE bash scripts/...`.

# cuda or cpu; machines, and devices on each; empty: as the cluster says, else 1 and 8; the environment's Python.
DEVICE=${DEVICE:-cuda}
NNODES=${NNODES:-}
GPUS_PER_NODE=${GPUS_PER_NODE:-}
PYTHON=${PYTHON:-python}

# Scorer servers: an address, a comma-separated list, or a directory of address files. Empty: the run's own, with
# SCORER_CONFIG and SCORER_PORT.
DPH_SCORER=${DPH_SCORER:-}
