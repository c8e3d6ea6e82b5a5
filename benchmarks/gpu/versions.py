"""Print the device and the versions of Python, CUDA and the packages that decide a result."""

import sys
from importlib.metadata import version
from importlib.util import find_spec

import torch

import verl.dph.training.actor_worker  # noqa: F401  (everything that an update needs can be imported)

device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
packages: tuple[str, ...] = ("torch", "transformers", "tokenizers", "numpy", "tensordict", "ray", "verl", "dph-rl")
packages += ("vllm",) if find_spec("vllm") else ()
sys.stdout.write(f"{device}, CUDA {torch.version.cuda}, Python {sys.version}\n")
sys.stdout.write("".join(f"{name} {version(name)}\n" for name in packages))
