"""Checks of the environment: Python, torch with CUDA, verl with our plugin, vLLM, attention, cupy."""

import shutil

from rl.checks.finding import Finding, Unknown, fail, ok, skipped, warn
from rl.checks.machine import Machine

# The version whose hooks verl.dph overrides.
VERL = "0.9.1"
OLDEST_PYTHON, PYTHON_OF_GPUS = (3, 11), (3, 12)
CUPY = "cupy-cuda13x==14.0.1"  # as verl pins it
_NO_SUM = {
    "nccl": "look at NCCL_DEBUG=INFO; try NCCL_P2P_DISABLE=1, a larger /dev/shm, NCCL_SOCKET_IFNAME for the interface.",
    "gloo": "name the network interface in GLOO_SOCKET_IFNAME, or let the host's name resolve (/etc/hosts).",
}
INSTALL = (
    "install the environment (make install, with GPUs make install-gpu), and activate it or name its Python in PYTHON."
)


def python(machine: Machine) -> Finding:
    try:
        version = machine.probe("packages")["python"]
    except Unknown as error:
        return fail(f"{machine.python} cannot look into its environment ({error})", INSTALL)
    release = tuple(map(int, str(version).split(".")[:2]))
    if release < OLDEST_PYTHON:
        return fail(f"{version} ({machine.python}): this project needs 3.11 or newer", INSTALL)
    if not machine.on_cpu and release != PYTHON_OF_GPUS:
        return warn(
            f"{version} ({machine.python}): wheels of flash-attn for torch 2.11 with CUDA 13 exist only for 3.12",
            "make the environment with Python 3.12.",
        )
    return ok(f"{version} ({machine.python})")


def torch(machine: Machine) -> Finding:
    try:
        found = machine.probe("torch")
    except Unknown as error:
        return fail(f"cannot be imported ({error})", INSTALL)
    if machine.on_cpu:
        return ok(found["version"])
    if found["cuda"] is None:
        return fail(
            f"{found['version']} is built without CUDA", "use the environment of make install-gpu, or DEVICE=cpu."
        )
    if found["error"] is not None:
        return fail(
            f"{found['version']} cannot use the GPUs: {found['error']}",
            "see the driver above; else look at nvidia-smi.",
        )
    return ok(f"{found['version']}, CUDA {found['cuda']}, a product in bfloat16 on each of {found['devices']} GPUs")


def compiler(machine: Machine) -> Finding:
    """Triton compiles its launchers when it first runs, for vLLM and torch.compile."""
    if machine.on_cpu:
        return skipped("nothing is compiled on a CPU")
    program = next(filter(None, map(shutil.which, ("gcc", "clang", "cc"))), None)
    if program is None:
        return fail("no C compiler, which Triton needs (vLLM, torch.compile)", "apt-get install gcc.")
    if machine.probe("packages")["Python.h"] is None:
        return fail(
            "no Python.h, which Triton needs (vLLM, torch.compile)", "apt-get install python3-dev (of this Python)."
        )
    return ok(f"{program}, Python.h")


def verl(machine: Machine) -> Finding:
    version = machine.probe("packages")["verl"]
    if version is None:
        return fail("not installed", INSTALL)
    if version != VERL:
        return fail(f"{version}: verl.dph overrides hooks of {VERL}", f"pip install verl=={VERL}.")
    return ok(version)


def plugin(machine: Machine) -> Finding:
    try:
        found = machine.probe("plugin")
    except Unknown as error:
        return fail(f"verl cannot be imported ({error})", INSTALL)
    if found["loaded"]:
        return ok("verl loads verl.dph")
    if found["error"] is not None:
        return fail(f"verl.dph cannot register itself: {found['error']}", INSTALL)
    policy = machine.environment.get("VERL_USE_EXTERNAL_PLUGINS")
    if policy is not None:
        return fail(
            f"VERL_USE_EXTERNAL_PLUGINS={policy} keeps verl from loading verl.dph", "unset it, or add dph to it."
        )
    return fail("verl does not load verl.dph: this repository is not installed there", "pip install --no-deps -e .")


def vllm(machine: Machine) -> Finding:
    version = machine.probe("packages")["vllm"]
    if version is None and machine.on_cpu:
        return skipped("the rollout on a CPU is hf; vLLM's CPU build has an environment of its own (make install-vllm)")
    if version is None:
        return fail("not installed", "make install-gpu.")
    try:
        return ok(machine.probe("vllm")["version"])
    except Unknown as error:
        return fail(
            f"{version} cannot be imported ({error})",
            "install vLLM and torch as requirements.txt has them: make install-gpu.",
        )


def attention(machine: Machine) -> Finding:
    """The attention that training chooses here."""
    if machine.on_cpu:
        return skipped("sdpa on a CPU")
    try:
        found = machine.probe("attention")
    except Unknown as error:
        return fail(f"verl.dph cannot choose one ({error})", INSTALL)
    because = f", because {' and '.join(found['reasons'])}" if found["reasons"] else ""
    if found["chosen"] == "sdpa":
        return warn(f"sdpa{because}: long packed rows take more time and memory", "install flash-attn 2.8.3.")
    return ok(f"{found['chosen']}{because}")


def ranks(machine: Machine) -> Finding:
    """A sum over this machine's ranks; two processes on a CPU."""
    count, backend = (2, "gloo") if machine.on_cpu else (min(machine.ranks, len(machine.gpus)), "nccl")
    library = backend if machine.on_cpu else f"NCCL {machine.probe('torch')['nccl']}"
    try:
        found = machine.probe("ranks", str(count), backend)
    except Unknown as error:
        return fail(f"{library} cannot sum over {count} processes: {error}", _NO_SUM[backend])
    return ok(f"{library} sums over {count} processes, {found['seconds']:.0f} s with their start")


def cupy(machine: Machine) -> Finding:
    if machine.on_cpu:
        return skipped("weights travel over gloo on a CPU")
    if machine.probe("packages")["import cupy"] is not None:
        return ok("installed")
    advice = f"pip install {CUPY}."
    mode = machine.run.values.get("trainer.v1.trainer_mode") if machine.run is not None else None
    if mode == "separate_async":
        return fail("not installed, and trainer.v1.trainer_mode=separate_async sends weights with it", advice)
    return warn("not installed; only trainer.v1.trainer_mode=separate_async needs it", advice)
