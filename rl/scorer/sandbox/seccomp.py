"""seccomp: a filter of system calls that a process sets for itself and that its children keep.

The filter is a program of classic BPF over the call's architecture, number and arguments:
https://docs.kernel.org/userspace-api/seccomp_filter.html. A denied call returns an error. A call through another
architecture's interface (32 bits, x32), where numbers mean other calls, ends the process.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Collection
from typing import NamedTuple

from rl.scorer.sandbox import system_calls

_AUDIT_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_X32_BIT = 0x4000_0000
# Offsets in struct seccomp_data. Arguments are of 64 bits, least significant word first.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_GREATER, _IF_AT_LEAST = 0x15, 0x25, 0x35
ALLOW, KILL, _ERROR = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
NOT_PERMITTED, NO_ACCESS, NO_SUCH_CALL = (_ERROR | code for code in (errno.EPERM, errno.EACCES, errno.ENOSYS))

_SET_FILTER, _GET_ACTION = 1, 2
# Switches off what kernels before 5.16 do about speculation in filtered processes: it costs several per cent, and a
# worker has nothing to hide from itself.
_ALL_THREADS, _ALLOW_SPECULATION = 1, 4

_CLONE_THREAD = 0x10000
# Mount, control group, UTS, IPC, user, process and network namespaces.
_CLONE_NAMESPACES = 0x7E02_0000
# prctl's command for the signal that a process gets when its parent ends.
_SET_PARENT_DEATH_SIGNAL = 1
_CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_WORD = 0xFFFF_FFFF
# Commands of fcntl: duplicates, flags and locks of descriptors; which process gets which signal about input.
_DESCRIPTOR_COMMANDS = (0, 1, 2, 3, 5, 6, 7, 36, 37, 38, 1030)
_OWNER_COMMANDS = (8, 10, 15)
_SET_FLAGS = 4
# Arguments of socket.
_LOCAL, _INTERNET, _INTERNET_6, _STREAM, _TYPE_MASK = 1, 2, 10, 1, 0xF


class _If(NamedTuple):
    """Whether the word at `offset`, masked, is one of `values`."""

    offset: int
    values: Collection[int]
    mask: int = _WORD


Instruction = tuple[int, int, int, int]


def supported() -> bool:
    """Whether the kernel has filters and this machine's numbers are known."""
    machine = os.uname().machine
    if machine not in _AUDIT_ARCHITECTURES or struct.calcsize("P") != 8:
        return False
    action = ctypes.c_uint32(ALLOW)
    return _library().syscall(_own_number(machine), _GET_ACTION, 0, ctypes.byref(action)) == 0


def install(program: list[Instruction]) -> None:
    """Filter the calls of every thread of this process from here on. It must have given up new privileges before."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_program = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    number = _own_number(os.uname().machine)
    if _library().syscall(number, _SET_FILTER, _ALL_THREADS | _ALLOW_SPECULATION, filter_program) != 0:
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")


def computing_only(machine: str, process: int, server_port: int | None = None) -> list[Instruction]:
    """A filter for the process with the id `process`: only the calls that a worker for SQL or math needs.

    server_port: the process may also connect, by TCP, or with 0 by local sockets only.
    """
    rules = _Rules(machine)
    # These come first: the kernel caches calls that are always allowed, and runs the filter only for the others.
    for name, argument in (("open", 1), ("openat", 2)):
        # With this error SQLite, which tries to open for writing first, opens read-only.
        rules.when(name, [_If(_low(argument), [0], _CHANGING)], ALLOW, NO_ACCESS)
    rules.when("clone", [_If(_low(0), [_CLONE_THREAD], _CLONE_THREAD)], ALLOW, NO_SUCH_CALL)
    if server_port is not None:
        families = [_INTERNET, _INTERNET_6] if server_port else [_LOCAL]
        rules.when("socket", [_If(_low(0), families), _If(_low(1), [_STREAM], _TYPE_MASK)], ALLOW, NOT_PERMITTED)
        rules.always(system_calls.TALKING, ALLOW)
    commands = (*_DESCRIPTOR_COMMANDS, *([] if server_port is None else [_SET_FLAGS]))
    rules.when("fcntl", [_If(_low(1), commands)], ALLOW, NO_SUCH_CALL)
    for name in ("kill", "tgkill"):
        rules.when(name, [_If(_low(0), [process])], ALLOW, NOT_PERMITTED)
    reading_own = [_If(_low(0), [0, process]), _If(_low(2), [0]), _If(_low(2) + 4, [0])]
    rules.when("prlimit64", reading_own, ALLOW, NOT_PERMITTED)
    rules.always(system_calls.COMPUTING, ALLOW)
    return rules.program(NO_SUCH_CALL)


def all_but(machine: str, process: int, writes: bool, network: bool, programs: bool) -> list[Instruction]:
    """A filter for the process with the id `process`: every call except NEVER and what the arguments do not allow."""
    rules = _Rules(machine)
    rules.always(system_calls.NEVER, NOT_PERMITTED)
    if not writes:
        rules.always(system_calls.MODIFYING, NOT_PERMITTED)
    if not network:
        rules.always(system_calls.CONNECTING, NOT_PERMITTED)
    if not programs:
        rules.always(system_calls.STARTING, NOT_PERMITTED)
        rules.when("clone", [_If(_low(0), [_CLONE_THREAD], _CLONE_THREAD)], ALLOW, NOT_PERMITTED)
        rules.when("fcntl", [_If(_low(1), _OWNER_COMMANDS)], NOT_PERMITTED, ALLOW)
        for name in ("kill", "tgkill"):
            rules.when(name, [_If(_low(0), [process])], ALLOW, NOT_PERMITTED)
        # Without the signal a worker outlives a server that is killed. With programs it is allowed, because torch's
        # processes set it too, and a filter cannot tell them from the worker.
        rules.when("prctl", [_If(_low(0), [_SET_PARENT_DEATH_SIGNAL])], NOT_PERMITTED, ALLOW)
    else:
        rules.when("clone", [_If(_low(0), [0], _CLONE_NAMESPACES)], ALLOW, NOT_PERMITTED)
    # Its flags are in memory, which a filter cannot read; the C library falls back on clone.
    rules.when("clone3", [], NO_SUCH_CALL)
    rules.when("prlimit64", [_If(_low(0), [0, process])], ALLOW, NOT_PERMITTED)
    return rules.program(ALLOW)


class _Rules:
    """A filter's rules, one per call."""

    def __init__(self, machine: str):
        self._machine = machine
        self._named = system_calls.numbers(f"{system_calls.BY_ARGUMENTS}, {system_calls.CONNECTING}", machine)
        self._body: list[Instruction] = []

    def always(self, table: str, action: int) -> None:
        for number in system_calls.numbers(table, self._machine).values():
            self._body += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, action)]

    def when(self, name: str, conditions: list[_If], action: int, otherwise: int = KILL) -> None:
        """`action` if all conditions hold. Nothing for a call that the machine lacks."""
        if name not in self._named:
            return
        checks: list[Instruction] = []
        for offset, values, mask in conditions:
            checks += [(_LOAD, 0, 0, offset), (_AND, 0, 0, mask)]
            # To the next condition past the other values and the return.
            checks += [(_IF_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
            checks.append((_RETURN, 0, 0, otherwise))
        checks.append((_RETURN, 0, 0, action))
        self._body += [(_IF_EQUAL, 0, len(checks), self._named[name]), *checks]

    def program(self, default: int) -> list[Instruction]:
        """The filter; `default` is for calls without a rule."""
        foreign = [
            (_LOAD, 0, 0, _ARCHITECTURE),
            (_IF_EQUAL, 1, 0, _AUDIT_ARCHITECTURES[self._machine]),
            (_RETURN, 0, 0, KILL),
            (_LOAD, 0, 0, _NUMBER),
        ]
        if self._machine == "x86_64":
            foreign += [(_IF_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, KILL)]
        later = [(_IF_GREATER, 0, 1, system_calls.LAST), (_RETURN, 0, 0, NO_SUCH_CALL)]
        return [*foreign, *later, *self._body, (_RETURN, 0, 0, default)]


def _low(argument: int) -> int:
    """Offset of the argument's low word: all that the kernel reads of a number of 32 bits."""
    return _ARGUMENTS + 8 * argument


def _own_number(machine: str) -> int:
    return system_calls.numbers(system_calls.BY_ARGUMENTS, machine)["seccomp"]


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
