"""The gloo process group for verl's workers.

verl 0.9.1 joins "cpu:gloo" and "<device>:<backend>" (verl/utils/distributed.py:89). On the CPU platform both halves
name the CPU, which torch rejects, so the backend is named here.
"""

import functools

import verl.utils.distributed as verl_distributed

BACKEND = "cpu:gloo"


def use_gloo() -> None:
    """Make `initialize_global_process_group_ray` default to gloo. Call it before modules import it by name."""
    initialize = verl_distributed.initialize_global_process_group_ray
    if getattr(initialize, "_defaults_to_gloo", False):
        return

    @functools.wraps(initialize)
    def initialize_with_gloo(timeout_second: int | None = None, backend: str | None = None) -> None:
        initialize(timeout_second, backend or BACKEND)

    initialize_with_gloo._defaults_to_gloo = True  # type: ignore[attr-defined]
    verl_distributed.initialize_global_process_group_ray = initialize_with_gloo
