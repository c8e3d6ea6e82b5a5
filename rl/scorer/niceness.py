"""Whether the server may change the priority of its workers in both directions."""

import os
import sys
import threading
from functools import cache


@cache
def may_renice() -> bool:
    """Whether a niceness that was raised can be lowered again: it takes CAP_SYS_NICE, which containers lack by default.

    Tried on a thread, which on Linux has a niceness of its own.
    """
    if sys.platform != "linux":
        return False
    allowed = []

    def try_it() -> None:
        try:
            niceness = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, 0, 19)
            os.setpriority(os.PRIO_PROCESS, 0, niceness)
            allowed.append(True)
        except PermissionError:
            pass

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    return bool(allowed)
