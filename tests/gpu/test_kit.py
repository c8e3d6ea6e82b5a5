"""The kit for a machine without a network, as far as it goes without one; what is downloaded is only named here."""

import re
import tomllib

import pytest
from packaging.utils import canonicalize_name

from tests.programs import REPOSITORY

PARTS_OF_TRAIN = ("scorer", "client", "engines", "audit", "report")


@pytest.fixture(scope="module")
def make_kit(program):
    return program("make_kit")


def test_its_packages_are_pinned_as_for_gpus(make_kit):
    """Each of them once, with the checksum of what was downloaded; torch is the machine's own, with its CUDA."""
    base, vllm = make_kit.listed("base"), make_kit.listed("vllm")
    packages = base[""] + vllm[""]
    assert len({*packages}) == len(packages) and "torch" not in packages
    assert {"verl", "transformers", "ray", "vllm", "openai"} <= {*packages} and "xgrammar" in vllm["="]
    lock = (REPOSITORY / "requirements.lock").read_text()
    assert all(f"\n{pin} " in lock for pin in make_kit.pinned(*packages))


# What CUDA's image has (README.md of benchmarks/gpu), of the packages that this project names.
IMAGE = {
    *("PyYAML", "aiohttp", "httpx", "huggingface_hub", "Jinja2", "MarkupSafe", "matplotlib", "numpy", "packaging"),
    *("pandas", "prometheus_client", "psutil", "pyarrow", "requests", "safetensors", "scipy", "sympy", "torch", "tqdm"),
    *("uvloop", "wrapt"),
}
# The check runs neither vLLM, nor copies of weights between GPUs, nor databases other than SQLite.
UNUSED = {"vllm", "psycopg"}


def test_its_wheels_and_the_image_are_all_that_this_project_names(make_kit):
    """The scorer's httptools was missing on the first GPU."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *(line for extra in ("train", *PARTS_OF_TRAIN) for line in extras[extra])]
    names = {canonicalize_name(re.match(r"[\w.-]+", line)[0]) for line in named} - {"dph-rl"}
    packed = {*make_kit.listed("base")[""]}
    assert not names - {canonicalize_name(name) for name in packed | IMAGE | UNUSED}
