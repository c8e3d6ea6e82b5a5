"""The `verl.plugins` entry point: registrations in every process that imports verl.

verl imports this module but does not call the entry point, and logs an import error at DEBUG only. So the module
registers when it is imported, logs an error visibly, and sets `registered` when done.
"""

import logging
import os
import sys
from importlib.metadata import entry_points

from wrapt import register_post_import_hook

from rl.common.console_log import mark_messages
from rl.common.errors import UserError
from verl.dph import cpu
from verl.dph.config.device_choice import set_platform

logger = logging.getLogger(__name__)

NAME, GROUP = "dph", "verl.plugins"  # of the entry point, in pyproject.toml
POLICY = "VERL_USE_EXTERNAL_PLUGINS"

registered = False


def check_environment() -> None:
    """Reject an environment in which verl would silently not load this plugin in its processes."""
    policy = os.environ.get(POLICY, "auto").strip().lower()
    if policy != "auto" and NAME not in (name.strip() for name in policy.split(",")):
        raise UserError(
            f"{POLICY}={policy} in the environment keeps verl from loading the plugin of verl.dph in its processes: "
            f"unset it, or add {NAME} to it."
        )
    if not (registered and any(entry.name == NAME for entry in entry_points(group=GROUP))):
        raise UserError(
            "verl did not load the plugin of verl.dph: install this repository into the environment (make install), so "
            f"that its entry point {GROUP} is known."
        )


def register() -> None:
    """Register names that verl looks up: advantage estimators, the rollout "hf", the platform of VERL_PLATFORM=cpu.

    No function of verl is replaced here; our programs do that in their own processes (`replace_functions` in
    training/actor_worker.py, `TaskRunner` in main.py). Two exceptions let the platform "cpu" start process groups
    (`use_gloo` and `use_unshared_ports` in cpu/platform.py). Our programs get VERL_PLATFORM=cpu here, because verl
    chooses its platform next.
    """
    global registered
    set_platform(sys.orig_argv)
    mark_messages()
    logging.getLogger("verl.dph").setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))  # Ray's workers log warnings only
    register_post_import_hook("verl.dph.objective.advantages:register", "verl.trainer.ppo.core_algos")
    register_post_import_hook("verl.dph.hf_rollout:register_rollout", "verl.workers.rollout.replica")
    if cpu.is_chosen():
        # It would log VERL_PLATFORM in every process.
        logging.getLogger("verl.plugin.platform.platform_manager").setLevel(logging.WARNING)
        cpu.register()
    registered = True


try:
    register()
except Exception:
    logger.exception("verl.dph could not register itself with verl; VERL_PLATFORM=cpu and the hf rollout will not work")
    raise
