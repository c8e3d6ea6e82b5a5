"""The programs of the check on one GPU (benchmarks/gpu), which are not a package."""

import importlib.util
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.programs import REPOSITORY

FOLDER = REPOSITORY / "benchmarks" / "gpu"


@pytest.fixture(scope="session")
def program() -> Callable[[str], ModuleType]:
    """Load a program of the check by its name."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
