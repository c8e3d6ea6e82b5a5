"""The modules of docs/site, which is not a package."""

import importlib.util
from types import ModuleType

from tests.programs import REPOSITORY

DOCS = REPOSITORY / "docs"


def site_module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_site_{name}", DOCS / "site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
