"""Landlock: rules about files that a process sets for itself and its children and cannot lift.

Reference: https://docs.kernel.org/userspace-api/landlock.html. Landlock does not cover looking up a file's status, nor
changing its mode, owner, times or extended attributes.
"""

import ctypes
import os
from collections.abc import Iterable

# The same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH, _NET_PORT = 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_READ = _READ_FILE | _READ_DIR
# Rights on a file; the other rights are about a folder's entries.
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
# How many rights on files each version of the interface knows.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NETWORK_VERSION, _SCOPE_VERSION = 4, 6
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


class _Port(ctypes.Structure):
    _fields_ = [("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64)]


def version() -> int:
    """The version of the kernel's Landlock interface, 0 if it has none."""
    try:
        return _call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict(reads: Iterable[str] | None, writes: Iterable[str], network: bool, server_port: int | None = None) -> None:
    """Restrict this thread, and the threads and processes that it starts, to these files and folders.

    Args:
        reads: what may be read; None for everything. Paths that do not exist are ignored.
        writes: existing folders and files that may be read and changed in every way.
        network: whether TCP may be used (from version 4 on).
        server_port: without network, the only TCP port that may be connected to.

    From version 6 on, processes outside get no signals from here.
    """
    known = version()
    rights = (1 << _RIGHTS[min(known, max(_RIGHTS))]) - 1
    handled = rights if reads is not None else rights & ~(_EXECUTE | _READ | _IOCTL_DEVICE)
    ruleset = _Ruleset(handled)
    if known >= _NETWORK_VERSION and not network:
        ruleset.network = _BIND_TCP | _CONNECT_TCP
    if known >= _SCOPE_VERSION:
        ruleset.scoped = _SIGNALS | (0 if network else _ABSTRACT_SOCKETS)
    # Older kernels accept the longer structure if the fields that they do not know are 0.
    descriptor = _call(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.sizeof(ruleset), 0)
    try:
        for path in reads or ():
            _allow(descriptor, path, handled & _READ)
        for path in writes:
            _allow(descriptor, path, handled)
        if server_port and ruleset.network:
            port = _Port(_CONNECT_TCP, server_port)
            _call(_ADD_RULE, descriptor, _NET_PORT, ctypes.byref(port), 0)
        _allow(descriptor, os.devnull, handled & _OF_A_FILE & ~_EXECUTE)
        _call(_RESTRICT_SELF, descriptor, 0)
    finally:
        os.close(descriptor)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        rule = _PathBeneath(rights if os.path.isdir(path) else rights & _OF_A_FILE, folder)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(folder)


def _call(number: int, *arguments: object) -> int:
    result = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
