"""Whether the server may change the priority of its workers in both directions."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def may_renice() -> bool:
    """Whether a niceness that was raised can be lowered again: it takes CAP_SYS_NICE, which containers lack by default.

    Tried on a thread, which on Linux has a niceness of its own.
    """
    if sys.platform != "linux":
        return False
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_raise_and_lower).result()


def _raise_and_lower() -> bool:
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    except PermissionError:
        return False
    return True
