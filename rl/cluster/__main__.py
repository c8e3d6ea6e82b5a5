"""`python -m rl.cluster [options] -- COMMAND`: one node of a run; scripts/lib/cluster.sh calls it."""

import asyncio
import signal
import sys
from collections.abc import Coroutine

from rl.cluster.errors import ClusterError
from rl.cluster.head import run_head
from rl.cluster.programs import Programs, race, run, say
from rl.cluster.scorer import Scorer, answers
from rl.cluster.settings import HEAD_RANK, Deadline, Settings, parse
from rl.cluster.worker import run_worker

LOOPBACK = "127.0.0.1"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: the command's, that of a ClusterError, or 128 + n after signal n."""
    settings = parse(arguments)
    try:
        return asyncio.run(_until_signal(_node(settings)))
    except ClusterError as error:
        sys.stderr.write(f"Error: {error}\n")
        return error.exit_code


async def _until_signal(work: Coroutine[None, None, int]) -> int:
    """The work's exit code; a signal to end cancels it, and waits until everything is taken down."""
    task, received = asyncio.ensure_future(work), []

    def end(number: signal.Signals) -> None:
        # The first one counts: an impatient second must not break off the taking down.
        if not received:
            say(f"{number.name}: ending what was started")
            received.append(number)
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # One that is ignored, as under nohup, stays so.
        if signal.getsignal(number) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await task
    except asyncio.CancelledError:
        return 128 + received[0]


async def _node(settings: Settings) -> int:
    async with Programs() as programs:
        programs.keep_logs = True
        run_node = _run_alone if settings.nodes == 1 else run_head if settings.rank == HEAD_RANK else run_worker
        exit_code = await run_node(programs, settings)
        programs.keep_logs = exit_code != 0
        return exit_code


async def _run_alone(programs: Programs, settings: Settings) -> int:
    """One machine: the command has its own Ray, and a scorer, where no other one serves."""
    if settings.scorer is not None:
        return await run(programs, settings.command, {"DPH_SCORER": settings.scorer})
    scorer = Scorer(programs, settings, LOOPBACK)
    environment = {"DPH_SCORER": scorer.address}
    if await answers(scorer.address):
        say(f"the scorer that runs at {scorer.address} is used")
        return await run(programs, settings.command, environment)
    await scorer.start(Deadline.after(settings.wait_seconds))
    say(f"a scorer was started at {scorer.address}")
    return await race(run(programs, settings.command, environment), scorer.keep_running())


if __name__ == "__main__":
    sys.exit(main())
