"""verl's trainer without an accelerator: a CPU platform, FSDP2 on gloo, and an agent loop for small models.

`register()` is called by verl.dph.plugin in every process that imports verl, when VERL_PLATFORM=cpu and only then. It
registers the platform at once and the parts that need heavy imports when verl itself imports their module.
"""

# {verl's module: our function, called with it once it is imported}; an error in the function fails that import.
# Importing verl.dph.cpu.engine also registers the engines.
AFTER_IMPORT = {
    "verl.workers.engine.fsdp.transformer_impl": "verl.dph.cpu.engine:save_copies",
    "verl.checkpoint_engine.base": "verl.dph.cpu.checkpoint_engine:register_checkpoint_engine",
    "verl.workers.rollout.router": "verl.dph.cpu.in_process:use_in_process_router",
}


def register() -> None:
    """Make verl run with VERL_PLATFORM=cpu in this process."""
    from wrapt import register_post_import_hook

    from verl.dph.cpu.platform import use_gloo  # registers the platform

    use_gloo()
    for module, function in AFTER_IMPORT.items():
        register_post_import_hook(function, module)
