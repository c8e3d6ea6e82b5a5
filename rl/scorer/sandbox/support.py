"""What the kernel offers for a sandbox, and what the settings ask for."""

import sys
from collections.abc import Iterable
from functools import cache

from rl.common.errors import UserError
from rl.scorer.config import ScorerSettings
from rl.scorer.sandbox import landlock, seccomp

MECHANISMS = ("landlock", "seccomp")


@cache
def offered() -> tuple[str, ...]:
    """Those of MECHANISMS that this kernel has."""
    has = {"landlock": sys.platform == "linux" and landlock.version() > 0, "seccomp": seccomp.supported()}
    return tuple(name for name in MECHANISMS if has[name])


def mechanisms(settings: ScorerSettings) -> list[str]:
    """What confines a worker with these settings."""
    return [] if settings.sandbox == "off" else list(offered())


def check_sandbox(scorers: Iterable[tuple[str, ScorerSettings]]) -> None:
    """One warning on stderr if scorers (name, settings) would be confined and the kernel lacks a mechanism.

    Raises UserError if one of them requires it.
    """
    lacks = " and ".join(name.capitalize() for name in MECHANISMS if name not in offered())
    wanting = [(name, settings.sandbox) for name, settings in scorers if settings.sandbox != "off"]
    if not lacks or not wanting:
        return
    for name, setting in wanting:
        if setting == "required":
            raise UserError(
                f"Scorers.{name}.sandbox is 'required', but the kernel lacks {lacks} (Linux 5.13 or later on x86-64 or "
                "arm64, with both enabled); set it to auto to do without."
            )
    sys.stderr.write(
        f"Warning: the kernel lacks {lacks}, so workers are not confined as docs/explanation/scoring.md says; "
        "`sandbox: off` in Scorers says that this is meant, `required` makes it an error.\n"
    )
