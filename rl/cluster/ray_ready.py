"""Prints a line when Ray's head can be joined, and the GPUs of every node, by address, as JSON, when it has so many.

A program of its own, so that the launcher does not hold Ray's client as long as training lasts.

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
    while not joined(address):
        if time.monotonic() > deadline:
            sys.stderr.write(f"its head at {address} cannot be joined.\n")
            return 1
        time.sleep(POLL_S)
    sys.stdout.write("joined\n")
    sys.stdout.flush()
    while len(alive := [node for node in ray.nodes() if node["Alive"]]) < nodes:
        if time.monotonic() > deadline:
            sys.stderr.write(f"it has those at {', '.join(sorted(node['NodeManagerAddress'] for node in alive))}.\n")
            return 1
        time.sleep(POLL_S)
    sys.stdout.write(json.dumps({node["NodeManagerAddress"]: node["Resources"].get("GPU", 0) for node in alive}))
    return 0


def joined(address: str) -> bool:
    """Whether Ray's head has come so far: its port is open earlier, but what comes then fails."""
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, RuntimeError, ray.exceptions.RayError):
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
