"""A fork server, and the worker processes that it forks: each does one job at a time for the server, over a socket.

The fork server imports what its workers need, once, and never starts a thread. A new worker is ready within
milliseconds, however long sympy takes to import, and shares the fork server's memory until either changes it. Over the
fork server's stdin the server asks for a fork, passing the worker's socket, or for the exit code of a worker. What
workers print goes to the pipe that is their stdout and stderr (fork_server.py). The fork server takes no part in jobs,
so no response reaches it.

The settings, JSON on the command line, name the kind of jobs: "sql" (sql/jobs.py), "math" (math/jobs.py) or "task"
(task/jobs.py). Each has a `reply(job, body)` that returns the reply's header and body. Every reply's header gets "cpu",
the processor time of the process in seconds; "last": true announces that the worker ends after this reply.

Messages are frames: two 4-byte big-endian lengths, a JSON header and an opaque body. The server never decodes a body,
so it trusts nothing from a worker beyond JSON.

A worker is a sandbox: its memory is bounded, it cannot write a file (RLIMIT_FSIZE 0), the server kills it when it
exceeds its time, and the kernel denies it whatever its jobs do not need (sandbox/confine.py).
"""

import errno
import gc
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import BinaryIO, Protocol

from rl.common.parent_death import end_with_parent
from rl.scorer.sandbox.confine import confine, prepare, writable

# Between server and fork server. A request is FORK, or the id of a worker whose exit code is wanted. The reply is the
# worker's id, an error's number with a minus, or the exit code.
NUMBER = struct.Struct("=i")
FORK = 0
_LENGTHS = struct.Struct(">II")


def frame_of(header: dict, body: bytes) -> bytes:
    """One frame."""
    text = json.dumps(header).encode()
    return _LENGTHS.pack(len(text), len(body)) + text + body


def _read_frame(stream: BinaryIO) -> tuple[dict, bytes] | None:
    """The next frame's (header, body) from a blocking stream, None at its end."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    header_size, body_size = _LENGTHS.unpack(lengths)
    return json.loads(stream.read(header_size)), stream.read(body_size)


def take_frame(buffer: bytearray, max_bytes: int) -> tuple[dict, bytes] | None:
    """Remove the first frame from `buffer` and return its (header, body); None while it is not complete.

    Raises ValueError for a frame of more than `max_bytes`, or with a header that is not JSON.
    """
    if len(buffer) < _LENGTHS.size:
        return None
    header_size, body_size = _LENGTHS.unpack_from(buffer)
    body_start = _LENGTHS.size + header_size
    end = body_start + body_size
    if end > max_bytes:
        raise ValueError(f"a frame of {end} bytes, more than {max_bytes}")
    if len(buffer) < end:
        return None
    frame = json.loads(bytes(buffer[_LENGTHS.size : body_start])), bytes(buffer[body_start:end])
    del buffer[:end]
    return frame


class Jobs(Protocol):
    """The jobs of one kind of worker. mapped_bytes: address space for files that are mapped for reading."""

    mapped_bytes: int

    def reply(self, job: dict, body: bytes) -> tuple[dict, bytes]: ...


def _load(kind: str, settings: dict) -> Callable[..., Jobs]:
    """The class of a kind's jobs, after its imports; SQLite needs the standard library only."""
    module = import_module(f"rl.scorer.{kind}.jobs")
    getattr(module, "warm_up", lambda **_: None)(**settings)
    return getattr(module, f"{kind.title()}Jobs")


def _limit(memory_bytes: int, mapped_bytes: int, writes: bool) -> None:
    """Limit memory beyond what the process has now, and the size of files."""
    if not writes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/statm", encoding="ascii") as statm:
        pages = [int(count) for count in statm.read().split()]
    space, data = (count * resource.getpagesize() for count in (pages[0], pages[5]))
    # Memory that a process writes is data; address space includes mapped files.
    resource.setrlimit(resource.RLIMIT_DATA, (data + memory_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_AS, (space + memory_bytes + mapped_bytes,) * 2)


def main() -> None:
    """Fork workers until the server closes the socket; in a worker, serve jobs until it closes the worker's socket."""
    settings = json.loads(sys.argv[1])
    end_with_parent(by=signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server, which gets it too, ends the workers
    # An exception must not close it: the server would end this process before it has printed the exception.
    control = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    os.dup2(null := os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    os.close(null)
    jobs = _load(settings["kind"], settings["jobs"])
    prepare(**settings["sandbox"])
    sys.stdout.flush()
    gc.freeze()  # else the first collection of each worker would copy most of the memory
    control.sendall(NUMBER.pack(0))
    is_worker = _fork_workers(control)
    # A worker keeps only its own socket to the server.
    control.close()
    if is_worker:
        _serve(settings, jobs)


def _fork_workers(control: socket.socket) -> bool:
    """Do what the server asks: False at its end, True in a new worker, which has its channel as stdin."""
    while True:
        request, channel, _, _ = socket.recv_fds(control, NUMBER.size, 1)
        if len(request) < NUMBER.size:
            return False
        [number] = NUMBER.unpack(request)
        if number != FORK:
            reply = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        elif (reply := _fork(channel)) == 0:
            return True
        for descriptor in channel:
            os.close(descriptor)
        control.sendall(NUMBER.pack(reply))


def _fork(channel: list[int]) -> int:
    """A worker's id, an error's number with a minus, or 0 in the worker."""
    if not channel:  # this process had no free descriptor to receive it
        return -errno.EMFILE
    try:
        process = os.fork()
    except OSError as error:
        return -(error.errno or errno.EAGAIN)
    if process == 0:
        end_with_parent(by=signal.SIGKILL)
        os.dup2(channel[0], sys.stdin.fileno())
        os.close(channel[0])
    os.setpgid(process, process)  # in both processes, whichever runs first: the server kills the group
    return process


def _serve(settings: dict, make_jobs: Callable[..., Jobs]) -> None:
    channel = _own_channel()
    jobs = make_jobs(**settings["jobs"])
    _limit(settings["memory_bytes"], jobs.mapped_bytes, bool(writable(settings["sandbox"]["allow"])))
    confine(**settings["sandbox"])
    _reply(channel, {"outcome": "ready"}, b"")
    with os.fdopen(channel, "rb", closefd=False) as requests:
        while (frame := _read_frame(requests)) is not None:
            header, body = jobs.reply(*frame)
            del frame
            _reply(channel, header, body)
            if header.get("last"):
                break


def _own_channel() -> int:
    """A descriptor of the server's socket that programs started here do not inherit and forked processes do not keep.

    A task's function then reads /dev/null, and its output is sent line by line.
    """
    channel = os.dup(sys.stdin.fileno())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, sys.stdin.fileno())
    sys.stdout = os.fdopen(sys.stdout.fileno(), "w", buffering=1, errors="replace", closefd=False)
    os.register_at_fork(after_in_child=lambda: os.dup2(null, channel, inheritable=False))
    return channel


def _reply(descriptor: int, header: dict, body: bytes) -> None:
    view = memoryview(frame_of(header | {"cpu": time.process_time()}, body))
    while view:
        view = view[os.write(descriptor, view) :]
