"""Prints the GPUs of every node, by address, as JSON, once Ray has so many nodes.

A program of its own, so that the head does not hold Ray's client as long as training lasts.

    python -m rl.cluster.ray_ready ADDRESS NODES SECONDS
"""

import json
import logging
import sys
import time

import ray

POLL_S = 0.5


def main() -> int:
    address, nodes, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    deadline = time.monotonic() + seconds
    ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    while len(alive := [node for node in ray.nodes() if node["Alive"]]) < nodes:
        if time.monotonic() > deadline:
            sys.stderr.write(f"it has those at {', '.join(sorted(node['NodeManagerAddress'] for node in alive))}.\n")
            return 1
        time.sleep(POLL_S)
    sys.stdout.write(json.dumps({node["NodeManagerAddress"]: node["Resources"].get("GPU", 0) for node in alive}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
