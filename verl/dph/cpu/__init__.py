"""verl's trainer without an accelerator: a CPU platform, FSDP2 on gloo, and a rollout on Hugging Face models.

`register()` is called by verl.dph.plugin in every process that imports verl, when VERL_PLATFORM=cpu and only then. It
registers the platform at once and the parts that need heavy imports when verl itself imports their module.
"""


def register() -> None:
    """Make verl run with VERL_PLATFORM=cpu in this process. A second call changes nothing."""
    from verl.dph.cpu.after_import import after_import
    from verl.dph.cpu.platform import register_platform
    from verl.dph.cpu.process_group import use_gloo

    register_platform()
    use_gloo()
    after_import("verl.workers.engine.fsdp.transformer_impl", _register_engine)
    after_import("verl.workers.rollout.replica", _register_rollout)
    after_import("verl.checkpoint_engine.base", _register_checkpoint_engine)
    after_import("verl.workers.rollout.router", _use_in_process_router)


def _register_engine() -> None:
    from verl.dph.cpu.engine import register_engine

    register_engine()


def _register_rollout() -> None:
    from verl.workers.rollout.base import _ROLLOUT_REGISTRY
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    RolloutReplicaRegistry.register("hf", _load_replica)
    _ROLLOUT_REGISTRY[("hf", "async")] = "verl.dph.cpu.hf_adapter.HFServerAdapter"


def _register_checkpoint_engine() -> None:
    from verl.dph.cpu.checkpoint_engine import register_checkpoint_engine

    register_checkpoint_engine()


def _use_in_process_router() -> None:
    from verl.dph.cpu.in_process import use_in_process_router

    use_in_process_router()


def _load_replica() -> type:
    from verl.dph.cpu.hf_replica import HFReplica

    return HFReplica
