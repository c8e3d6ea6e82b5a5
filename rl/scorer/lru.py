"""A least-recently-used map bounded by the bytes of what it holds.

cachetools does not fit: workers for SQLite need this map and start without site-packages (fork_server.py).
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Held = TypeVar("Held")


class ByteLru(Generic[Held]):
    """Values by key, at most `capacity` bytes of them by the sizes given to `put`.

    Two maps of equal capacity that get the same calls hold the same keys: so the server knows which gold results a
    worker still has.
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
