"""Each extra names every package that its programs import."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rl.cli import COMMANDS
from tests.programs import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# An extra's modules, without those that start with the next names, and the packages that some of them need from another
# extra when a user asks for it.
MODULES = {
    "scorer": (["rl.scorer"], ("rl.scorer.audit", "rl.scorer.client"), {"duckdb", "psycopg"}),
    "client": (["rl.scorer.client"], "nothing", set()),
    "engines": (["rl.scorer"], ("rl.scorer.audit", "rl.scorer.client"), set()),
    "audit": (["rl.scorer"], "rl.scorer.client", {"duckdb", "psycopg"}),
    # inspect counts tokens with a tokenizer (transformers) and reads a D_pef store with torch; programs that prepare
    # reach the scorer's engines.
    "report": (
        [
            COMMANDS[name].program.partition(":")[0]
            for name in ("report", "compare", "inspect", "split", "prepare bird")
        ],
        "nothing",
        {"psycopg", "torch", "transformers"},
    ),
    "train": (["rl", "verl.dph"], "nothing", set()),
}


@pytest.mark.parametrize("extra", MODULES)
def test_an_extra_names_what_its_modules_import(extra):
    names, without, elsewhere = MODULES[extra]
    modules = [module for name in names for module in below(name) if not module.startswith(without)]
    assert all(map(path_of, modules))
    imported = {name: path for path in reachable(modules) for name in third_party(path)}
    declared = names_in(PROJECT["dependencies"] + EXTRAS[extra])
    missing = {name: path.name for name, path in imported.items() if not distributions(name) & declared}
    assert {*missing} == elsewhere, missing
    assert imported, "imports are read"


def below(name: str) -> list[str]:
    """A module, or the modules of a package."""
    folder = REPOSITORY / name.replace(".", "/")
    if not folder.is_dir():
        return [name]
    files = [file.relative_to(REPOSITORY).with_suffix("") for file in folder.rglob("*.py")]
    return [".".join(file.parts).removesuffix(".__init__") for file in files]


def path_of(module: str) -> Path | None:
    """The file of a module of ours."""
    path = REPOSITORY / module.replace(".", "/")
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def reachable(modules: list[str]) -> set[Path]:
    """Files of ours that these modules import, functions included, themselves among them."""
    found: set[Path] = set()
    while modules:
        path = path_of(modules.pop())
        if path and path not in found:
            found.add(path)
            modules += [name for name in imports(path) if name.startswith(("rl.", "verl.dph"))]
    return found


@cache
def imports(path: Path) -> list[str]:
    """Dotted names after import, and after from with and without what is imported."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def third_party(path: Path) -> Iterator[str]:
    for name in imports(path):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names | {"rl", "_typeshed"} and not f"{name}.".startswith("verl.dph."):
            yield top


def names_in(lines: list[str]) -> set[str]:
    """Normalised names of the packages that these lines and our extras in them name."""
    requirements = [Requirement(line) for line in lines]
    ours = (EXTRAS[extra] for requirement in requirements for extra in requirement.extras & EXTRAS.keys())
    return {normalised(requirement.name) for requirement in requirements}.union(*map(names_in, ours))


_held_by = cache(packages_distributions)


def distributions(module: str) -> set[str]:
    """Normalised names of the distributions that hold a top-level module; its own name if it is not installed."""
    return {normalised(name) for name in _held_by().get(module, [module])}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
