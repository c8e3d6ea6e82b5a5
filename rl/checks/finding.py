"""What a check finds, and how a list of checks is run: a program stops at the first failure, dph doctor shows all.

A check is a function of what it looks at. It returns a Finding, or raises UserError with a sentence that names the
setting, what was found and what to do.
"""

import json
import logging
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Generic, Literal, TypeVar

from rl.common.cli import find_user_error
from rl.common.errors import UserError
from rl.common.text import listed

logger = logging.getLogger(__name__)

Subject = TypeVar("Subject")
_Seen = TypeVar("_Seen", contravariant=True)


@dataclass(frozen=True)
class Finding:
    """What a check found, a line of dph doctor.

    Attributes:
        status: ok; warn: it works, but as `found` says; fail: it does not work; skipped: there is nothing to check.
        found: what is there; of a failure, a sentence that also says what to do.
    """

    status: Literal["ok", "warn", "fail", "skipped"]
    found: str


ok = partial(Finding, "ok")
warn = partial(Finding, "warn")
fail = partial(Finding, "fail")
skipped = partial(Finding, "skipped")


@dataclass(frozen=True)
class Check(Generic[_Seen]):
    """An entry in a list of checks.

    Attributes:
        needs: names of earlier checks; if one of them failed, this one is skipped.
    """

    name: str
    look: Callable[[_Seen], Finding]
    needs: tuple[str, ...] = ()


def enforce(checks: Sequence[Check[Subject]], subject: Subject, without: Collection[str] = ()) -> None:
    """Run checks in their order, raise a UserError at the first that fails, and log warnings."""
    for check in checks:
        if check.name in without:
            continue
        finding = check.look(subject)
        if finding.status == "fail":
            raise UserError(finding.found)
        if finding.status == "warn":
            logger.warning(finding.found)


def look_at(checks: Sequence[Check[Subject]], subject: Subject) -> Iterator[tuple[str, Finding]]:
    """Run all checks in their order; a failure is a finding like any other.

    Yields:
        Name and finding of each check, as it ends.
    """
    failed: dict[str, list[str]] = {}  # {check: the failures that it is or was skipped for}
    for check in checks:
        behind = [*dict.fromkeys(name for need in check.needs for name in failed.get(need, ()))]
        finding = skipped(f"not checked, because of {listed(behind)}") if behind else _found(check, subject)
        if behind or finding.status == "fail":
            failed[check.name] = behind or [check.name]
        yield check.name, finding


def print_all(findings: Iterable[tuple[str, Finding]]) -> None:
    """Print a JSON object per finding, as it comes, for `dph doctor`."""
    for name, finding in findings:
        sys.stdout.write(json.dumps({"check": name} | asdict(finding)) + "\n")
        sys.stdout.flush()


def _found(check: Check[Subject], subject: Subject) -> Finding:
    try:
        return check.look(subject)
    except Exception as error:
        if sentence := find_user_error(error):
            return fail(sentence)
        lines = str(error).strip().splitlines() or [""]
        return fail(f"the check itself failed ({type(error).__name__}: {lines[0]}): report it with this line.")
