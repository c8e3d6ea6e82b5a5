"""Environment variables whose names are nearly those of the launch scripts' settings."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from rl.planning.script_settings import CHECKOUT

# How the files of scripts/ define a setting (scripts/lib/arguments.sh lists them in the same way).
_SETTING = re.compile(r"^(?:.*\|\| )?([A-Z][A-Z0-9_]*)=\$\{\1", re.MULTILINE)
_AS_NEAR = 0.85


def settings() -> set[str]:
    """Every setting that a file of scripts/ reads from the environment."""
    return {name for file in (CHECKOUT / "scripts").rglob("*.sh") for name in _SETTING.findall(file.read_text())}


def misspelt(environment: Iterable[str]) -> Iterator[str]:
    """A sentence for each variable that is nearly the name of a setting."""
    known = settings()
    for name in sorted(set(environment) - known):
        if near := get_close_matches(name, known, 1, _AS_NEAR):
            yield f"{name} is no setting; did you mean {near[0]}?"
