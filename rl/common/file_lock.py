"""The kernel's lock of an open file (flock), which ends with the process that holds it."""

import fcntl
from pathlib import Path

from rl.common.errors import UserError


def lock(file: int, path: Path, wait: bool = False) -> bool:
    """Lock an open file. Returns False if another process holds its lock.

    Args:
        file: its descriptor.
        path: of the file.

    Raises:
        UserError: its file system has no such locks, as Lustre without the mount option flock.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        raise UserError(
            f"{path} is on a file system without flock ({error.strerror}), which keeps other processes out: mount it "
            "with flock, or name a folder on another one."
        ) from error
    return True
