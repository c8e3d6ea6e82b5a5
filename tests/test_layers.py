"""What import-linter (`make lint`) cannot see: what a module loads when it is loaded."""

import subprocess
import sys

HEAVY = {"torch", "transformers", "verl", "vllm"}
LOAD_ALL = f"""
import importlib, pkgutil, sys
import rl

for module in pkgutil.walk_packages(rl.__path__, "rl."):
    if not module.name.endswith(("__main__", "scorer_server_without_ray")):
        importlib.import_module(module.name)
        if found := {HEAVY} & set(sys.modules):
            sys.exit(f"{{module.name}} loads {{found}}")
"""


def test_rl_loads_neither_verl_nor_torch():
    done = subprocess.run([sys.executable, "-c", LOAD_ALL], capture_output=True, text=True)
    assert not done.returncode, done.stderr
