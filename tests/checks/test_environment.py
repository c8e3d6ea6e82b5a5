"""Checks of the machine and its environment, of this one's torch without CUDA, and of versions that are not here."""

import pytest

from rl.checks import environment
from rl.checks.environment import Machine


@pytest.mark.parametrize(
    ("check", "on_cpu", "installed", "status", "words"),
    [
        (environment.verl, True, {"verl": "0.10.0"}, "fail", "0.10.0, and verl.dph overrides hooks of 0.9.1"),
        (environment.vllm, False, {}, "fail", "not installed"),
        (environment.vllm, False, {"vllm": "0.24.0"}, "fail", "0.24.0: No module named 'vllm'"),
        (environment.torch, False, {"torch": "2.11.0"}, "fail", "built without CUDA"),
        (environment.torch, True, {"torch": "2.11.0"}, "ok", "2.11.0"),
        (environment.gpus, False, {}, "fail", "torch cannot use them ("),
    ],
)
def test_what_does_not_fit_is_named(monkeypatch, check, on_cpu, installed, status, words):
    monkeypatch.setattr(environment, "_installed", installed.get)
    finding = check(Machine(on_cpu))
    assert finding.status == status and words in finding.found


def test_the_verl_that_is_expected_is_the_one_that_is_pinned():
    with open("requirements-common.txt") as file:
        assert [line.strip() for line in file if line.startswith("verl")] == [f"verl=={environment.VERL}"]
