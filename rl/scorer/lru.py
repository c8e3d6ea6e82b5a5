"""A least-recently-used map bounded by the bytes of what it holds.

Not cachetools: workers for SQLite start without site-packages (fork_server.py), and need this map.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Held = TypeVar("Held")


class ByteLru(Generic[Held]):
    """Values by key, at most `capacity` bytes of them, by the sizes that `put` is told.

    Two maps of one capacity that see the same calls hold the same keys: the server knows in this way which gold
    results a worker still has (pool.py, worker.py).
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.size = 0
        self._entries: OrderedDict[Hashable, tuple[Held, int]] = OrderedDict()

    def get(self, key: Hashable) -> Held | None:
        """The value, now the most recently used, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, value: Held, size: int) -> None:
        """Hold `value`, dropping the least recently used; a value larger than the capacity is not held."""
        if size > self.capacity:
            return
        if key in self._entries:
            self.size -= self._entries.pop(key)[1]
        self._entries[key] = (value, size)
        self.size += size
        while self.size > self.capacity:
            self.size -= self._entries.popitem(last=False)[1][1]
