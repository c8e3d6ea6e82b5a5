"""Ray on a node: `ray start` is a program of ours, so that exactly this Ray ends with us, and nobody else's."""

import asyncio
import json
import os
import secrets
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress

from rl.cluster.errors import ClusterError
from rl.cluster.programs import Programs, stop
from rl.cluster.settings import HEAD_RANK, Deadline, Settings

POLL_S = 0.2
LOG = "ray"
# On a CPU Ray's CPUs and GPUs are only names (verl/dph/config/device/cpu.yaml).
_CPUS_WITHOUT_GPU = 16


def new_token() -> str:
    """Ray's password for this run: without one, whoever reaches Ray's port can run code on every node."""
    return os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(32)


def environment(token: str) -> dict[str, str]:
    """What `ray start` needs, and every program that joins."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}


def check_port(settings: Settings) -> None:
    """Refuse a port of Ray's head that is taken: another Ray there would be joined by mistake.

    Raises:
        ClusterError: it is taken.
    """
    try:
        socket.create_server((settings.node_address or "", settings.ray_port)).close()
    except OSError as error:
        raise ClusterError(
            f"Ray's head cannot listen on port {settings.ray_port} ({os.strerror(error.errno)}): end what holds the "
            "port (another Ray?), or give the head another RAY_PORT."
        ) from None


async def start_head(programs: Programs, settings: Settings, address: str, token: str, deadline: Deadline) -> Process:
    """Ray's head. Returns its process when its port is open.

    Raises:
        ClusterError: it ended, or is not there within the time limit.
    """
    process = await _start(
        programs,
        settings,
        token,
        "--head",
        f"--node-ip-address={address}",
        f"--port={settings.ray_port}",
        # Ray's own choice is a fixed port, on which two Rays of one machine would collide.
        f"--ray-client-server-port={_free_port()}",
        "--include-dashboard=false",
    )
    while not await _accepts(address, settings.ray_port):
        if process.returncode is not None or deadline.left == 0:
            await stop(process)
            raise _failure(programs, settings.rank, f"did not start within {deadline.seconds:g} s")
        await asyncio.sleep(POLL_S)
    return process


async def join(programs: Programs, settings: Settings, address: str, head: str, token: str) -> Process:
    """Ray of a node at `address` that joins the head's."""
    return await _start(programs, settings, token, f"--address={head}", f"--node-ip-address={address}")


async def ended(programs: Programs, process: Process, rank: int) -> None:
    """Waits until this node's Ray ends, which it must not.

    Raises:
        ClusterError: when it does.
    """
    await process.wait()
    raise _failure(programs, rank, "ended")


async def await_nodes(
    settings: Settings, address: str, token: str, deadline: Deadline, open_to_others: Callable[[], Awaitable[None]]
) -> None:
    """Waits until Ray has all nodes, and compares their GPUs with what training asks for.

    Args:
        address: of Ray's head.
        open_to_others: called when they can join it.

    Raises:
        ClusterError: it has not within the time limit, or there are fewer GPUs.
    """
    asking = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rl.cluster.ray_ready", address, str(settings.nodes), f"{deadline.left:g}"),
        env=os.environ | environment(token),
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    try:
        if await asking.stdout.readline():
            await open_to_others()
        output, errors = await asking.communicate()
    finally:
        await stop(asking)
    if asking.returncode:
        reason = (errors.decode(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
        raise ClusterError(f"Ray has not all {settings.nodes} nodes after {deadline.seconds:g} s: {reason}")
    gpus = json.loads(output)
    training = settings.nodes - settings.scorer_nodes
    if sum(count >= settings.gpus for count in gpus.values()) < training:
        found = ", ".join(f"{count:g} at {node}" for node, count in sorted(gpus.items()))
        raise ClusterError(
            f"Training asks for {settings.gpus} GPUs on each of {training} nodes, and Ray found {found}: set "
            "GPUS_PER_NODE to what all of them have, or SCORER_NODES to the number of nodes that only score."
        )


async def _start(programs: Programs, settings: Settings, token: str, *arguments: str) -> Process:
    resources = list(settings.ray_arguments)
    if not settings.trains(settings.rank):
        # Nothing of training is placed here, so that the node may be lost.
        resources += ["--num-cpus=0", "--num-gpus=0"]
    elif settings.device == "cpu":
        resources = [f"--num-cpus={_CPUS_WITHOUT_GPU}", f"--num-gpus={settings.gpus}", *resources]
    return await programs.start(
        [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"),
            *(f"--temp-dir={programs.folder / 'ray'}", "--log-style=record", "--log-color=false"),
            *(*arguments, *resources),
        ],
        environment(token),
        log=LOG,
    )


def _failure(programs: Programs, rank: int, what: str) -> ClusterError:
    node = "the head" if rank == HEAD_RANK else f"node {rank}"
    return ClusterError(f"Ray on {node} {what}: {programs.last_line(LOG)} (log: {programs.log(LOG)})", exit_code=1)


async def _accepts(address: str, port: int) -> bool:
    with suppress(OSError):
        _, writer = await asyncio.open_connection(address, port)
        writer.close()
        return True
    return False


def _free_port() -> int:
    with socket.create_server(("", 0)) as listener:
        return listener.getsockname()[1]
