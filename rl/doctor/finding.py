"""What a check finds."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail", "skipped"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor.

    Attributes:
        status: ok; warn: it works, with what `found` says; fail: it does not work; skipped: there was nothing to check.
        found: what is there, or a sentence that also says what to do.
        advice: what to do, "" if `found` says it.
    """

    status: Status
    found: str
    advice: str = ""

    def as_json(self, name: str) -> dict[str, str]:
        return {"check": name, "status": self.status, "found": self.found, "advice": self.advice}


def ok(found: str) -> Finding:
    return Finding("ok", found)


def warn(found: str, advice: str) -> Finding:
    return Finding("warn", found, advice)


def fail(found: str, advice: str = "") -> Finding:
    return Finding("fail", found, advice)


def skipped(why: str) -> Finding:
    return Finding("skipped", why)
