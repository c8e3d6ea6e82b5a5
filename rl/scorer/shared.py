"""Cached asynchronous work: one run per key for all concurrent callers."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from rl.scorer.lru import ByteLru

Result = TypeVar("Result")


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
    def size(self) -> int:
        """Bytes of what is kept."""
        return self._kept.size

    async def get(
        self, key: Hashable, make: Callable[[], Awaitable[Result]], size: Callable[[Result], int | None]
    ) -> Result:
        """The result of `make()` for `key`. `size` says its bytes, None for a result that must not be kept.

        A caller that goes away does not stop the run; what `make` raises reaches every caller and is not kept.
        """
        kept = self._kept.get(key)
        if kept is not None:
            self.hits += 1
            return kept
        task = self._running.get(key)
        if task is None or self._kept.capacity == 0:
            self.misses += 1
            task = asyncio.create_task(self._run(key, make, size))
            self._running[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
        else:
            self.hits += 1
        return await asyncio.shield(task)

    async def _run(self, key: Hashable, make: Callable[[], Awaitable[Result]], size: Callable) -> Result:
        result = await make()
        bytes_held = size(result)
        if bytes_held is not None:
            self._kept.put(key, result, bytes_held)
        return result

    def _forget(self, key: Hashable, done: asyncio.Task[Result]) -> None:
        if self._running.get(key) is done:
            del self._running[key]
        if not done.cancelled():
            # Marks a failure as seen: every caller may have gone away.
            done.exception()
