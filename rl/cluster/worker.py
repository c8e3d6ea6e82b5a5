"""A node that is not the head: joins its Ray, serves a scorer, and ends when the head ends."""

from rl.cluster import ray_node
from rl.cluster.control import Connection, connect
from rl.cluster.errors import ClusterError
from rl.cluster.programs import Programs, race
from rl.cluster.scorer import Scorer
from rl.cluster.settings import Deadline, Settings


async def run_worker(programs: Programs, settings: Settings) -> int:
    """Returns the exit code that the head gives.

    Raises:
        ClusterError: the head was not reached, refuses this node or is gone, or Ray or the scorer does not work.
    """
    deadline = Deadline.after(settings.wait_seconds)
    connection = await connect(settings, deadline)
    last_words = "it was told to end"
    try:
        works = [_follow(programs, settings, connection)]
        if settings.scorer is None:
            works.append(_score(programs, settings, connection, deadline))
        return await race(*works)
    except ClusterError as error:
        last_words = str(error)
        raise
    finally:
        # Where the head has closed the connection nobody hears it.
        await connection.send(failed=last_words)
        await connection.close()


async def _follow(programs: Programs, settings: Settings, connection: Connection) -> int:
    """Does what the head says until it says that the end has come."""
    message = await connection.receive()
    if message is not None and "ray" in message:
        ray = await ray_node.join(programs, settings, connection.here, message["ray"], message["token"])
        return await race(_end(settings, connection), ray_node.ended(programs, ray, settings.rank))
    return _read_end(settings, connection, message)


async def _end(settings: Settings, connection: Connection) -> int:
    return _read_end(settings, connection, await connection.receive())


def _read_end(settings: Settings, connection: Connection, message: dict | None) -> int:
    if message is None:
        sentence = f"The head at {settings.head} is gone without a word: look at its output."
        raise ClusterError(sentence, exit_code=1)
    if "refused" in message:
        raise ClusterError(message["refused"])
    return int(message["end"])


async def _score(programs: Programs, settings: Settings, connection: Connection, deadline: Deadline) -> None:
    """Serves a scorer and registers it with the head."""
    scorer = Scorer(programs, settings, connection.here)
    await scorer.start(deadline)
    await connection.send(scorer=scorer.address)
    await scorer.keep_running()
