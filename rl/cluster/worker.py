"""A node that is not the head: joins its Ray, serves a scorer, and ends when the head ends."""

import asyncio

from rl.cluster import ray_node
from rl.cluster.control import RETRY_S, Connection, connect
from rl.cluster.errors import ClusterError
from rl.cluster.programs import Programs, race, say
from rl.cluster.scorer import Scorer
from rl.cluster.settings import Deadline, Settings


async def run_worker(programs: Programs, settings: Settings) -> int:
    """Returns the exit code that the head gives.

    Raises:
        ClusterError: the head was not reached, refuses this node or is gone, or Ray or the scorer does not work.
    """
    deadline = Deadline.after(settings.wait_seconds)
    connection = await connect(settings, deadline)
    worker = _Worker(programs, settings, connection, deadline)
    works = [worker.hear(), worker.join_ray()]
    if settings.scorer is None:
        works.append(worker.score())
    last_words = "it was told to end"
    try:
        return await race(*works)
    except ClusterError as error:
        last_words = str(error)
        raise
    finally:
        # Where the head has closed the connection nobody hears it.
        await connection.send(failed=last_words)
        await connection.close()


class _Worker:
    """What a node does at the same time, once it has a connection to the head."""

    def __init__(self, programs: Programs, settings: Settings, connection: Connection, deadline: Deadline):
        self._programs, self._settings = programs, settings
        self._connection, self._deadline = connection, deadline
        self._head_ray: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._all_ready = False

    async def hear(self) -> int:
        """Returns the exit code that the head gives when it ends."""
        while (message := await self._connection.receive()) is not None:
            if "refused" in message:
                raise ClusterError(message["refused"])
            if "end" in message:
                return int(message["end"])
            if "ray" in message and not self._head_ray.done():
                self._head_ray.set_result(message)
            self._all_ready |= "ready" in message
        sentence = f"The head at {self._settings.head} is gone without a word: look at its output."
        raise ClusterError(sentence, exit_code=1)

    async def join_ray(self) -> None:
        """Joins the head's Ray. Until all nodes are ready it does so again: Ray gives a busy machine 30 s to start."""
        programs, settings = self._programs, self._settings
        head = await self._head_ray
        while True:
            ray = await ray_node.join(programs, settings, self._connection.here, head["ray"], head["token"])
            try:
                await ray_node.ended(programs, ray, settings.rank)
            except ClusterError as error:
                if self._all_ready or self._deadline.left == 0:
                    raise
                say(f"{error}; it is started again")
                await asyncio.sleep(RETRY_S)

    async def score(self) -> None:
        """Serves a scorer and registers it with the head."""
        scorer = Scorer(self._programs, self._settings, self._connection.here)
        await scorer.start(self._deadline)
        await self._connection.send(scorer=scorer.address)
        await scorer.keep_running()
