"""The first node of several: awaits the others, runs the command with their Ray and their scorers, and ends them."""

import asyncio
from functools import partial

from rl.cluster import ray_node
from rl.cluster.control import Register
from rl.cluster.errors import ClusterError
from rl.cluster.programs import Interruption, Programs, race, run, say
from rl.cluster.scorer import answers
from rl.cluster.settings import Deadline, Settings

POLL_S = 0.5


async def run_head(programs: Programs, settings: Settings, interruption: Interruption) -> int:
    """Returns the command's exit code, which every node then has too.

    Raises:
        ClusterError: a port is taken, a node did not join or was lost, or Ray or a scorer does not work.
    """
    ray_node.check_port(settings)
    losses = _Losses(settings)
    async with Register(settings, losses.lost) as register:
        exit_code = 1
        try:
            exit_code = await race(_run(programs, settings, register, losses), losses.fatal())
        except ClusterError as error:
            exit_code = error.exit_code
            raise
        except asyncio.CancelledError:
            exit_code = interruption.exit_code
            raise
        finally:
            await register.end(exit_code)
    return exit_code


class _Losses:
    """Nodes that fail or vanish: which of them end the run."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._error: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ready = False

    def lost(self, rank: int, reason: str) -> None:
        """A node that only scores may be lost once all were ready: the client asks the other servers."""
        if self.ready and not self._settings.trains(rank):
            say(f"node {rank}, which only scores, is gone ({reason}); training goes on with the other scorers")
        elif not self._error.done():
            self._error.set_exception(ClusterError(f"Node {rank} is gone: {reason}", 1 if self.ready else 2))

    async def fatal(self) -> None:
        """Raises ClusterError when a node is lost that must not be."""
        await asyncio.shield(self._error)


async def _run(programs: Programs, settings: Settings, register: Register, losses: _Losses) -> int:
    """Until others were told of it, Ray is started again: it gives a busy machine 30 s."""
    deadline = Deadline.after(settings.wait_seconds)
    address = await register.all_here(deadline)
    while True:
        try:
            return await _run_with_ray(programs, settings, register, losses, address, deadline)
        except ClusterError as error:
            if register.has_told or deadline.left == 0:
                raise
            say(f"{error}; it is started again")


async def _run_with_ray(
    programs: Programs, settings: Settings, register: Register, losses: _Losses, address: str, deadline: Deadline
) -> int:
    token = ray_node.new_token()
    ray = await ray_node.start_head(programs, settings, address, token, deadline)
    ray_address = f"{address}:{settings.ray_port}"

    async def command() -> int:
        opening = partial(register.tell, ray=ray_address, token=token)
        await ray_node.await_nodes(settings, ray_address, token, deadline, opening)
        scorer = settings.scorer or await _scorers(register, deadline)
        say(f"{settings.nodes} nodes are ready; scorers: {scorer}")
        losses.ready = True
        await register.tell(ready=True)
        joined = {"RAY_ADDRESS": ray_address, "DPH_HEAD": address, "DPH_SCORER": scorer}
        return await run(programs, settings.command, ray_node.environment(token) | joined)

    return await race(command(), ray_node.ended(programs, ray, settings.rank))


async def _scorers(register: Register, deadline: Deadline) -> str:
    """The scorers' addresses, comma-separated, once each answers this node."""
    addresses = await register.all_score(deadline)
    for address in addresses:
        while not await answers(address):
            if deadline.left == 0:
                raise ClusterError(
                    f"The scorer at {address} does not answer the head after {deadline.seconds:g} s: let its port "
                    "through between the nodes, or give all nodes another SCORER_PORT."
                )
            await asyncio.sleep(POLL_S)
    return ",".join(addresses)
