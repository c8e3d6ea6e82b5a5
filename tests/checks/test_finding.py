"""A list of checks: a program stops at the first failure, the doctor goes on."""

import pytest

from rl.checks.finding import Check, enforce, fail, look_at, ok, warn
from rl.common.errors import UserError


def rejects(seen: list[str]):
    raise UserError("a.b=3 is wrong: use 2.")


def breaks(seen: list[str]):
    raise ValueError("no such\nthing")


def sees(seen: list[str]):
    seen.append("looked")
    return ok("fine")


def test_a_program_stops_at_the_first_failure_and_logs_warnings(caplog):
    seen = []
    checks = [Check("first", sees), Check("second", lambda _: warn("It is slow: wait.")), Check("third", rejects)]
    with pytest.raises(UserError, match="a.b=3 is wrong"):
        enforce([*checks, Check("last", sees)], seen)
    assert seen == ["looked"] and "It is slow: wait." in caplog.text
    enforce(checks, seen, without=["third"])
    with pytest.raises(UserError, match="It is old: buy another."):
        enforce([Check("", lambda _: fail("It is old: buy another."))], seen)


def test_the_doctor_goes_on_and_skips_what_makes_no_sense():
    checks = [
        Check("settings", rejects),
        Check("rules", sees, needs=("settings",)),
        Check("store", sees, needs=("rules",)),
        Check("disk", breaks),
        Check("data", sees),
    ]
    found = {name: (finding.status, finding.found) for name, finding in look_at(checks, [])}
    assert found == {
        "settings": ("fail", "a.b=3 is wrong: use 2."),
        "rules": ("skipped", "not checked, because of settings"),
        "store": ("skipped", "not checked, because of settings"),
        "disk": ("fail", "the check itself failed (ValueError: no such): report it with this line."),
        "data": ("ok", "fine"),
    }
