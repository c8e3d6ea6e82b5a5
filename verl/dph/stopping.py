"""Programs that Ctrl-C and SIGTERM end in order: what is under way is cancelled and cleans up."""

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any


class Stopped(Exception):
    """A signal ended the program."""

    def __init__(self, number: signal.Signals):
        super().__init__(f"ended by {number.name}")
        self.exit_code = 128 + number


def run_stoppable(coroutine: Coroutine) -> Any:
    """asyncio.run; SIGINT and SIGTERM cancel the coroutine.

    Raises:
        Stopped: a signal came; the coroutine's clean-up is done.
    """
    came = []

    def as_interrupt(number: int, frame: Any) -> None:
        came.append(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)  # which asyncio.run turns into a cancellation

    before = signal.signal(signal.SIGTERM, as_interrupt)
    try:
        return asyncio.run(coroutine)
    except KeyboardInterrupt:
        raise Stopped(came[0] if came else signal.SIGINT) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def own_sigterm() -> Iterator[None]:
    """For what installs a handler of SIGTERM that ends the process at once, as ray.init does: ours is put back."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before):
            signal.signal(signal.SIGTERM, before)
