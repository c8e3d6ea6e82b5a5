"""A worker process: does one job at a time for the server, over the socket that it is started with as stdin.

Frames are those of frames.py. The settings, JSON on the command line, say which jobs it does: "kind" is "sql"
(sql/jobs.py), "math" (math/jobs.py) or "task" (task/jobs.py), and each has an `reply(job, body)` that returns the
reply's header and body. Every header gets "cpu", the processor time of the process in seconds. "last": true in one says
that the worker ends after this reply.

The process is the sandbox: its memory is bounded, it cannot write a file (RLIMIT_FSIZE 0), the server kills it when it
overruns, and the kernel denies it whatever its jobs do not need (sandbox/confine.py).
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
from rl.scorer.sandbox.confine import confine, writable

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


def _limit(memory_bytes: int, mapped_bytes: int, writes: bool) -> None:
    """Bound memory beyond what the process has now and the size of files, and end the process with the server."""
    if not writes:
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
    """Serve jobs until the server closes the socket."""
    settings = json.loads(sys.argv[1])
    channel = _own_channel()
    jobs = _jobs(settings)
    _limit(settings["memory_bytes"], jobs.mapped_bytes, bool(writable(settings["sandbox"]["allow"])))
    confine(**settings["sandbox"])
    _reply(channel, {"outcome": "ready"}, b"")
    with os.fdopen(channel, "rb", closefd=False) as requests:
        while (frame := frames.read(requests)) is not None:
            header, body = jobs.reply(*frame)
            del frame
            _reply(channel, header, body)
            if header.get("last"):
                break


def _own_channel() -> int:
    """A descriptor of the server's socket that no program started from here inherits, and no forked process keeps.

    What a task's function reads then is /dev/null. What it prints goes to a pipe (worker_output.py), by lines.
    """
    channel = os.dup(sys.stdin.fileno())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, sys.stdin.fileno())
    sys.stdout = os.fdopen(sys.stdout.fileno(), "w", buffering=1, errors="replace", closefd=False)
    os.register_at_fork(after_in_child=lambda: os.dup2(null, channel, inheritable=False))
    return channel


def _reply(descriptor: int, header: dict, body: bytes) -> None:
    view = memoryview(frames.encode(header | {"cpu": time.process_time()}, body))
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main()
