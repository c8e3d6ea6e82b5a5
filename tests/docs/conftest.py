"""The modules of docs/site, which is not a package, and the tables of pages."""

import importlib.util
import re
from types import ModuleType

from tests.programs import REPOSITORY

DOCS = REPOSITORY / "docs"


def site_module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_site_{name}", DOCS / "site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(text: str, table: int = 0) -> dict[str, list[str]]:
    """{first cell: the others} of a table, the first one unless told."""
    tables = [found.group() for found in re.finditer(r"(^\|.*\n)+", text, re.MULTILINE)]
    lines = [line.strip("| ").split(" | ") for line in tables[table].splitlines()]
    return {cells[0]: cells[1:] for cells in lines}
