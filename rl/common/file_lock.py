"""The kernel's lock of an open file (flock), which ends with the process that holds it."""

import errno
import fcntl
from pathlib import Path

from rl.common.errors import UserError


def lock(file: int, path: Path, wait: bool = False) -> bool:
    """Lock an open file. Returns False if another process holds its lock.

    Args:
        file: its descriptor.
        path: of the file.

    Raises:
        UserError: it cannot be locked; Lustre has no such locks without the mount option flock.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        absent = error.errno in (errno.ENOSYS, errno.EOPNOTSUPP)
        advice = "mount its file system with flock" if absent else "look at its file system"
        raise UserError(
            f"{path} cannot be locked ({error.strerror}), which keeps other processes out: {advice}, or name a folder "
            "elsewhere."
        ) from error
    return True
