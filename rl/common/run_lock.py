"""One run at a time in a folder.

The owner holds the flock of a file in the folder, and the kernel releases it when the owner dies. Hosts that share a
file system may not share flock, so an owner on another host counts as alive as long as the file names it.

The package filelock does not do this: its FileLock does not name the owner, and its SoftFileLock believes that an owner
in another container of this host is dead.
"""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rl.common.errors import UserError, file_errors

FILE = ".lock"


@contextmanager
def sole_run(folder: Path, otherwise: str) -> Iterator[None]:
    """Keep other runs out of a folder until the block ends; create the folder if it is missing.

    Args:
        otherwise: completes the error's "wait for it, or ...".
    """
    path, host = folder / FILE, socket.gethostname()
    advice = f"make room, make it writable, or {otherwise}"
    with file_errors(path, "written", advice):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _claimed(path, host, otherwise)
    try:
        owner = f"process {os.getpid()} on {host} since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        with file_errors(path, "written", advice):
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, owner.encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _claimed(path: Path, host: str, otherwise: str) -> int:
    """Open and flock the file: a new one, or one that a dead owner on this host has left."""
    try:
        # Only one of two hosts succeeds here, whether or not they share flock.
        descriptor, new = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), True
    except FileExistsError:
        descriptor, new = os.open(path, os.O_RDWR), False
    try:
        free = lock(descriptor, path, wait=new)  # another run may hold a new one, until it finds the file empty
    except UserError:
        os.close(descriptor)
        if new:
            path.unlink()
        raise
    if new:
        return descriptor
    owner = os.pread(descriptor, 1000, 0).decode(errors="replace") or "its process is not known"
    found, advice = f"A run is under way in {path.parent} ({owner})", f"wait for it, or {otherwise}"
    refusal = f"{found}: {advice}."
    if free and f" on {host} since " not in owner:
        refusal = f"{found}, unless it was killed: {advice}; if that process is dead, delete {path}."
    elif free and path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor)):
        return descriptor  # otherwise its owner has just removed the file, and others would not find our lock
    os.close(descriptor)
    raise UserError(refusal)


def lock(file: int, path: Path, wait: bool = False) -> bool:
    """Lock an open file. Returns False if another process holds its lock.

    Args:
        file: its descriptor.
        path: of the file.

    Raises:
        UserError: it cannot be locked; Lustre has no such locks without the mount option flock.
    """
    with file_errors(path, "locked", "mount its file system with flock, or name a folder elsewhere"):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
    return True
