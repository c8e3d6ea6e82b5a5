"""One run at a time in a folder.

The owner holds the flock of a file in the folder, which the kernel releases when the owner dies. Hosts that share a
file system may not share flock, so an owner on another host counts as alive for as long as the file names it.

Not filelock: its FileLock does not name the owner, and its SoftFileLock takes an owner for dead whose process number it
does not see, as in another container of this host.
"""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rl.common.errors import UserError

FILE = ".lock"


@contextmanager
def sole_run(folder: Path, otherwise: str) -> Iterator[None]:
    """Keep other runs out of a folder, which is created if missing, until the block ends.

    Args:
        otherwise: what to do instead of waiting for the other run, in words.

    Raises:
        UserError: another run is in the folder, or may be, or the folder cannot be written.
    """
    path, host = folder / FILE, socket.gethostname()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _claimed(path, host, otherwise)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {host} since {time.strftime('%Y-%m-%d %H:%M:%S')}".encode(), 0)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}): make it writable, or {otherwise}.") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _claimed(path: Path, host: str, otherwise: str) -> int:
    """The open file, new or of an owner on this host that is dead, with its flock."""
    try:
        # Of two hosts only one succeeds, whether or not they share flock.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        descriptor = os.open(path, os.O_RDWR)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # whoever looks at it meanwhile finds it empty, and lets go of it
        return descriptor
    owner = os.pread(descriptor, 1000, 0).decode(errors="replace") or "its process is not known"
    found, advice = f"A run is under way in {path.parent} ({owner})", f"wait for it, or {otherwise}"
    refusal = f"{found}: {advice}."
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    else:
        if f" on {host} since " not in owner:
            refusal = f"{found}, unless it was killed: {advice}; if that process is dead, delete {path}."
        elif path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor)):
            return descriptor  # else its owner has just ended and removed it, so that others do not find our lock
    os.close(descriptor)
    raise UserError(refusal)
