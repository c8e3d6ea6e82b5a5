"""The `verl.plugins` entry point: registrations in every process that imports verl.

verl imports this module but does not call the entry point, and logs an import error at DEBUG only. So the module
registers when it is imported, logs an error visibly, and sets `registered` when done.
"""

import logging
import os
import sys

from rl.common.console_log import mark_messages
from verl.dph import hf_rollout
from verl.dph.config.device_choice import set_platform

logger = logging.getLogger(__name__)

registered = False


def register() -> None:
    """Register the rollout "hf" and, with VERL_PLATFORM=cpu, the CPU platform.

    One of our programs that runs on a CPU gets VERL_PLATFORM=cpu here, because verl chooses its platform next.
    """
    global registered
    set_platform(sys.orig_argv)
    mark_messages()
    # It would say in every process that VERL_PLATFORM is set.
    logging.getLogger("verl.plugin.platform.platform_manager").setLevel(logging.WARNING)
    hf_rollout.register()
    if os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu":
        from verl.dph import cpu

        cpu.register()
    registered = True


try:
    register()
except Exception:
    logger.exception(
        "verl.dph could not register itself with verl; neither VERL_PLATFORM=cpu nor the hf rollout will do"
    )
    raise
