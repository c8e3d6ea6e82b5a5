"""verl's trainer without an accelerator: a CPU platform, FSDP2 on gloo, and an agent loop for small models.

verl.dph.plugin calls `register` in every process that imports verl with VERL_PLATFORM=cpu. It registers the platform at
once, and the parts that need heavy imports when verl imports their module.
"""

import gc
import os

# {verl's module: our function, called with it once it is imported}; an error in the function fails that import.
AFTER_IMPORT = {
    "verl.workers.engine.fsdp.transformer_impl": "verl.dph.cpu.engine:register_engines",
    "verl.single_controller.ray.base": "verl.dph.cpu.platform:use_unshared_ports",
}


def is_chosen() -> bool:
    """Whether this process runs verl with VERL_PLATFORM=cpu."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"


def register() -> None:
    """Make verl run with VERL_PLATFORM=cpu in this process."""
    from wrapt import register_post_import_hook

    from verl.dph.cpu.platform import use_gloo  # registers the platform

    use_gloo()
    for module, function in AFTER_IMPORT.items():
        register_post_import_hook(function, module)
    # Each full collection would visit the 400,000 objects of the modules that verl has imported so far.
    gc.freeze()
