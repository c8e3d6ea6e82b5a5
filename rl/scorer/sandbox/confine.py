"""Confines a worker process after its imports and before its first job.

A worker for SQL or math may read its folders and compute, and nothing else, even if an answer takes it over. A worker
for a task runs its user's function, which may read everything and do what the setting `allow` permits.
"""

import ctypes
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache

from rl.scorer.sandbox import landlock, seccomp

MECHANISMS = ("landlock", "seccomp")
NETWORK, PROGRAMS, WRITES = "network", "subprocess", "write:"

# Libraries that are loaded late, time zones, texts of the C library, and devices without data of their own.
_SYSTEM = """
    /lib /lib64 /usr/lib /usr/lib64 /usr/local/lib /etc/ld.so.cache /etc/localtime /usr/share/zoneinfo /usr/share/locale
    /dev/zero /dev/urandom /dev/random
"""
_REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))

_NO_NEW_PRIVILEGES = 38
_CAPABILITIES_VERSION = 0x2008_0522
# CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_FSETID, CAP_KILL, CAP_SETGID, CAP_SETUID: rights on
# files and identities, which workers of a server that runs as root may need.
_KEPT_CAPABILITIES = 0xFF


@cache
def offered() -> tuple[str, ...]:
    """Those of MECHANISMS that this kernel has."""
    has = {"landlock": landlock.version() > 0, "seccomp": seccomp.supported()}
    return tuple(name for name in MECHANISMS if has[name])


def prepare(mechanisms: list[str], reads: list[str] | None, **_: object) -> None:
    """Look up the interpreter's folders, which takes 20 ms, once for all processes that are forked from this one."""
    if "landlock" in mechanisms and reads is not None:
        _interpreter()


def confine(mechanisms: list[str], reads: list[str] | None, allow: list[str], server_port: int | None = None) -> None:
    """Confine this process by those of MECHANISMS that are named; without any, leave it as it is.

    Args:
        reads: folders that may be read besides the interpreter's; nothing else is allowed then. None: everything may be
            read, and `allow` decides about the rest.
        allow: any of NETWORK, PROGRAMS and WRITES followed by a path.
        server_port: with `reads`, a TCP port that may be connected to on any host; 0: local sockets.

    Raises OSError if the kernel refuses. Landlock covers this thread and those that it starts, so RuntimeError is
    raised with `reads` if there are other threads.
    """
    if not mechanisms:
        return
    _give_up_privileges()
    network, programs, writes = NETWORK in allow, PROGRAMS in allow, writable(allow)
    if "landlock" in mechanisms:
        if reads is not None and len(os.listdir("/proc/self/task")) > 1:
            raise RuntimeError("a worker has started threads before it is confined; set `sandbox: off`")
        landlock.restrict(None if reads is None else [*reads, *_interpreter()], writes, network, server_port)
    if "seccomp" in mechanisms:
        machine, process = os.uname().machine, os.getpid()
        if reads is None:
            seccomp.install(seccomp.all_but(machine, process, bool(writes), network, programs))
        else:
            seccomp.install(seccomp.computing_only(machine, process, server_port))


def writable(allow: Iterable[str]) -> list[str]:
    """The paths of the entries `write:PATH`."""
    return [entry.removeprefix(WRITES) for entry in allow if entry.startswith(WRITES)]


@cache
def _interpreter() -> list[str]:
    """Folders from which this interpreter may still import, without its working directory and the repository's data."""
    searched = [folder for folder in sys.path if folder not in ("", _REPOSITORY)]
    folders = [*searched, os.path.join(sys.base_prefix, "lib"), os.path.join(sys.prefix, "lib")]
    for folder in filter(os.path.isdir, searched):
        folders += _behind_links(folder)
    # Packages of editable installs that are loaded.
    folders += [folder for module in list(sys.modules.values()) for folder in getattr(module, "__path__", ())]
    return list(dict.fromkeys(folders)) + _SYSTEM.split()


def _behind_links(folder: str) -> Iterator[str]:
    """Targets of packages in `folder` that are links or have linked files: a rule applies to the target of a path."""
    folder = os.path.realpath(folder)
    for entry in os.scandir(folder):
        if entry.is_symlink():
            yield entry.path
        elif entry.is_dir():
            package = os.path.dirname(os.path.realpath(os.path.join(entry.path, "__init__.py")))
            if package != entry.path:
                # The parent folder has the package's libraries too, such as numpy.libs.
                yield os.path.dirname(package)


def _give_up_privileges() -> None:
    """Give up capabilities to change the machine (mounts, clocks, limits, modules), and set-user-ID programs.

    Landlock and seccomp require the latter.
    """
    library = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    # Effective, permitted, inheritable; twice, for the upper 32.
    sets = (ctypes.c_uint32 * 6)()
    failed = library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or library.capget(header, sets)
    kept = (ctypes.c_uint32 * 6)(sets[0] & _KEPT_CAPABILITIES, sets[1] & _KEPT_CAPABILITIES)
    if failed or library.capset(header, kept):
        raise OSError(ctypes.get_errno(), f"giving up privileges: {os.strerror(ctypes.get_errno())}")
