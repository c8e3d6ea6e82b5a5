"""`python -m rl.cluster [options] -- COMMAND`: one node of a run; scripts/lib/cluster.sh calls it."""

import asyncio
import signal
import sys

from rl.cluster.errors import ClusterError
from rl.cluster.head import run_head
from rl.cluster.programs import Interruption, Programs, race, run, say
from rl.cluster.scorer import Scorer, answers
from rl.cluster.settings import HEAD_RANK, Deadline, Settings, parse
from rl.cluster.worker import run_worker

LOOPBACK = "127.0.0.1"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: the command's, that of a ClusterError, or 128 + n after signal n."""
    settings = parse(arguments)
    try:
        return asyncio.run(_until_signal(settings))
    except ClusterError as error:
        sys.stderr.write(f"Error: {error}\n")
        return error.exit_code


async def _until_signal(settings: Settings) -> int:
    """The node's exit code; a signal to end cancels its work, and waits until everything is taken down."""
    interruption = Interruption()
    task = asyncio.ensure_future(_node(settings, interruption))

    def end(number: signal.Signals) -> None:
        # The first one counts: an impatient second must not break off the taking down.
        if interruption.number is None:
            say(f"{number.name}: ending what was started")
            interruption.number = number
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # One that is ignored, as under nohup, stays so.
        if signal.getsignal(number) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await task
    except asyncio.CancelledError:
        return interruption.exit_code


async def _node(settings: Settings, interruption: Interruption) -> int:
    async with Programs() as programs:
        programs.keep_logs = True
        if settings.nodes == 1:
            exit_code = await _run_alone(programs, settings)
        elif settings.rank == HEAD_RANK:
            exit_code = await run_head(programs, settings, interruption)
        else:
            exit_code = await run_worker(programs, settings)
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
