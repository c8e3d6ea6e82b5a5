"""A worker process: does one job at a time for the server, over stdin and stdout (frames.py).

The settings, JSON on the command line, say which jobs it does: "kind" is "sql" (sql/jobs.py), "math" (math/jobs.py) or
"task" (task/jobs.py), and each has an `reply(job, body)` that returns the reply's header and body. Every header gets
"cpu", the processor time of the process in seconds. "last": true in one says that the worker ends after this reply.

The process is the sandbox: its memory is bounded, it cannot write a file (RLIMIT_FSIZE 0), and the server
kills it when it overruns. It does not confine an attacker who takes over SQLite or the interpreter itself: no system
call is filtered.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import time
from importlib import import_module
from typing import Protocol

from rl.scorer import frames

_PR_SET_PDEATHSIG = 1


class Jobs(Protocol):
    """What a kind of worker does."""

    # Address space for files that are mapped for reading.
    mapped_bytes: int

    def reply(self, job: dict, body: bytes) -> tuple[dict, bytes]: ...


def _jobs(settings: dict) -> Jobs:
    """Import only what the kind needs: a worker for SQL starts within a twentieth of a second."""
    kind = settings["kind"]
    return getattr(import_module(f"rl.scorer.{kind}.jobs"), f"{kind.title()}Jobs")(**settings["jobs"])


def _confine(memory_bytes: int, mapped_bytes: int) -> None:
    """Bound memory beyond what the process has now, forbid writing files, and end the process with the server."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as statm:
            pages = [int(count) for count in statm.read().split()]
        space, data = (count * resource.getpagesize() for count in (pages[0], pages[5]))
        # Memory that a process writes is data; address space has mapped files too.
        resource.setrlimit(resource.RLIMIT_DATA, (data + memory_bytes,) * 2)
        resource.setrlimit(resource.RLIMIT_AS, (space + memory_bytes + mapped_bytes,) * 2)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Serve jobs until stdin ends."""
    settings = json.loads(sys.argv[1])
    jobs = _jobs(settings)
    _confine(settings["memory_bytes"], jobs.mapped_bytes)
    # The socket gets a descriptor of its own, so that no stray print can break a frame.
    replies = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _reply(replies, {"outcome": "ready"}, b"")
    while (frame := frames.read(sys.stdin.buffer)) is not None:
        header, body = jobs.reply(*frame)
        del frame
        _reply(replies, header, body)
        if header.get("last"):
            break


def _reply(descriptor: int, header: dict, body: bytes) -> None:
    view = memoryview(frames.encode(header | {"cpu": time.process_time()}, body))
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main()
