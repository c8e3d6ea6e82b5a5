"""What a process gets when its parent dies. The scorer's workers load it, so it imports the standard library alone."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def end_with_parent(parent: int | None = None, by: signal.Signals = signal.SIGTERM) -> None:
    """This process gets the signal when its parent dies, also by SIGKILL, when the parent cannot end it.

    Args:
        parent: its id, where nothing else ends this process if the parent has died before this call.
    """
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, by, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os._exit(1)
