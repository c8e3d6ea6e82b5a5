"""Checks of the machine and its environment, of what a probe may find, with disks and a Python of our own."""

from rl.checks import environment
from rl.checks.machine import Machine
from rl.common.text import GB

GPUS = [{"name": "NVIDIA H100 80GB HBM3", "total": 80 * GB, "free": 79 * GB}] * 8
PACKAGES = {"python": "3.12.1", "verl": "0.9.1", "vllm": "0.24.0", "torch": "2.11.0", "cuda": "13.0", "gpus": GPUS}


def machine(device: str = "cuda", errors: dict[str, str] | None = None, **packages) -> Machine:
    found = Machine(on_cpu=device == "cpu")
    found.packages = PACKAGES | {"errors": errors or {}} | packages
    return found


def test_versions():
    for check, device, changes, status, words in (
        (environment.python, "cuda", {"python": "3.10.4"}, "fail", "needs 3.11 or newer"),
        (environment.python, "cuda", {"python": "3.11.9"}, "warn", "exist only for 3.12"),
        (environment.verl, "cpu", {"verl": "0.10.0"}, "fail", "0.10.0: verl.dph overrides hooks of 0.9.1"),
        (environment.vllm, "cuda", {"vllm": None}, "fail", "not installed"),
        (environment.vllm, "cuda", {"errors": {"vllm": "undefined symbol"}}, "fail", "undefined symbol"),
        (environment.torch, "cuda", {"cuda": None}, "fail", "built without CUDA"),
        (environment.torch, "cpu", {"cuda": None, "errors": {"gpus": "no driver"}}, "ok", "2.11.0"),
    ):
        finding = check(machine(device, **changes))
        assert finding.status == status and words in finding.found


def test_the_verl_that_is_expected_is_the_one_that_is_pinned():
    with open("requirements-common.txt") as file:
        assert [line.strip() for line in file if line.startswith("verl")] == [f"verl=={environment.VERL}"]
