"""Graceful shutdown on SIGINT and SIGTERM: work in progress is cancelled and cleaned up."""

import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any


class Stopped(Exception):
    """A signal ended the program."""

    def __init__(self, number: signal.Signals):
        super().__init__(f"Stopped by {number.name}.")
        self.exit_code = 128 + number


def run_stoppable(coroutine: Coroutine) -> Any:
    """asyncio.run; SIGINT and SIGTERM cancel the coroutine.

    Raises:
        Stopped: a signal came; the coroutine's clean-up is done.
    """
    import asyncio  # importing it takes a third of the start-up time of a program that only reads files

    try:
        with stoppable_when_armed() as arm:
            arm()
            return asyncio.run(coroutine)
    except KeyboardInterrupt:
        raise Stopped(signal.SIGINT) from None


@contextmanager
def stoppable_when_armed() -> Iterator[Callable[[], object]]:
    """Yield a function; after the main thread has called it, SIGTERM ends the block as Ctrl-C does.

    A block that calls ray.init calls the function afterwards, because Ray's own handler aborts the process. Ray's
    blocking calls pass a KeyboardInterrupt on, but lose the exit code of a SystemExit.

    Raises:
        Stopped: SIGTERM came.
    """
    came, before = [], signal.getsignal(signal.SIGTERM)

    def interrupt(number: int, frame: Any) -> None:
        came.append(number)
        # asyncio.run's handler cancels its coroutine. A shell ignores SIGINT in what it starts with `&`.
        on_interrupt = signal.getsignal(signal.SIGINT)
        (on_interrupt if callable(on_interrupt) else signal.default_int_handler)(number, frame)

    try:
        yield lambda: signal.signal(signal.SIGTERM, interrupt)
    except KeyboardInterrupt:
        if not came:
            raise
        raise Stopped(signal.SIGTERM) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def own_sigterm() -> Iterator[None]:
    """Restore our handler of SIGTERM after the block: ray.init installs one that ends the process at once."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before):
            signal.signal(signal.SIGTERM, before)


def exit_on_sigterm() -> None:
    """Make SIGTERM raise SystemExit, so that `with` blocks and `finally` clean up as after Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
