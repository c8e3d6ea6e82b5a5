"""Where the ranks of a torch process group meet: an address of rank 0's node, and a port that stays free."""

import random
import socket
from pathlib import Path

LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def master_address_and_port(master_port_range: list[int] | None = None) -> tuple[str, str]:
    """This node's address and a free port on it, as verl's `get_master_addr_port` returns them.

    verl 0.9.1 asks the kernel for a free port (single_controller/ray/base.py), and rank 0 listens there seconds later.
    Meanwhile the kernel may give the same port to any connection. This port is below those that it gives away.

    Args:
        master_port_range: ignored; verl's trainers give none.
    """
    import ray

    return ray.util.get_node_ip_address().strip("[]"), str(free_port())


def free_port() -> int:
    """A random port that is free, and that the kernel chooses for nobody."""
    first = int(LOCAL_PORTS.read_text().split()[0])
    while True:
        # Programs with the same seed draw different ports.
        port = random.SystemRandom().randrange(10_000, max(first, 20_000))
        try:
            with socket.create_server(("", port)):
                return port
        except OSError:
            continue
