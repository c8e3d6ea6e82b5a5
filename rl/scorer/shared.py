"""Cached asynchronous work: one run per key for all concurrent callers."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from rl.scorer.lru import ByteLru


class Keepable(Protocol):
    """kept_bytes: about its size in a cache; None if it must not be kept."""

    @property
    def kept_bytes(self) -> int | None: ...


Result = TypeVar("Result", bound=Keepable)
Item = TypeVar("Item")
Made = TypeVar("Made")
# More than the workers of a large machine have at a time.
AT_ONCE = 1000


class SharedResults(Generic[Result]):
    """Results by key: one run for concurrent callers, kept within `capacity` bytes; with 0 every call is a run.

    hits, misses: calls that needed no run of their own, and runs.
    """

    def __init__(self, capacity: int):
        self._kept: ByteLru[Result] = ByteLru(capacity)
        self._running: dict[Hashable, asyncio.Task[Result]] = {}
        self.hits = 0
        self.misses = 0

    @property
    def bytes(self) -> int:
        """Bytes of what is kept."""
        return self._kept.size

    async def get(self, of: tuple, make: Callable[[], Awaitable[Result]]) -> Result:
        """The result of `make()` for what `of` holds: texts, numbers and tuples of them, of which only a hash is kept.

        A caller that goes away does not stop the run; what `make` raises reaches every caller and is not kept.
        """
        key = hashlib.sha256(repr(of).encode()).digest()
        kept = self._kept.get(key)
        if kept is not None:
            self.hits += 1
            return kept
        task = self._running.get(key) if self._kept.capacity else None
        if task is None:
            self.misses += 1
            task = self._running[key] = asyncio.create_task(self._run(key, make))
            # Marks a failure as seen: every caller may have gone away.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        else:
            self.hits += 1
        return await asyncio.shield(task)

    async def _run(self, key: Hashable, make: Callable[[], Awaitable[Result]]) -> Result:
        try:
            result = await make()
        finally:
            self._running.pop(key, None)
        if result.kept_bytes is not None:
            self._kept.put(key, result, result.kept_bytes)
        return result


async def gather_in_turn(make: Callable[[Item], Awaitable[Made]], items: Sequence[Item]) -> list[Made]:
    """make(item) of each, at most AT_ONCE at a time: a task takes some kilobytes, and a request may hold a million."""
    made: list[Made] = []
    for start in range(0, len(items), AT_ONCE):
        made += await asyncio.gather(*map(make, items[start : start + AT_ONCE]))
    return made
