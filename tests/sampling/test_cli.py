"""Exit codes and messages of a real process, with real Ray tasks; tests/common/test_cli.py has them in process."""

import os
import subprocess
import sys

import pytest

# One process runs every case (importing verl and starting Ray take seconds); stderr is cut at the markers.
SCRIPT = """
import pathlib
import sys
import traceback
import ray
from rl.common import cli
from verl.dph.config import program
from rl.common.errors import UserError

program.CONFIG_DIR = pathlib.Path(__file__).parent


def fail():
    raise UserError("The setting x is 3; set it to 4.")


@ray.remote(num_cpus=0)
class BrokenActor:
    def __init__(self):
        fail()

    def ping(self):
        return 1


@ray.remote(num_cpus=0)
def outer(kind):
    ray.get(ray.remote(num_cpus=0)(fail).remote() if kind == "task" else BrokenActor.remote().ping.remote())


def job(config):
    if config.kind == "user":
        fail()
    elif config.kind == "missing":
        config.needed
    elif config.kind == "bug":
        raise ValueError("a bug")
    elif config.kind == "ray":
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
        nodes = ray._private.worker._global_node.all_processes.values()
        sys.stdout.write("PIDS " + " ".join(str(p.process.pid) for processes in nodes for p in processes) + chr(10))
        try:
            ray.get(outer.remote("actor"))
        except ray.exceptions.RayError as error:
            sys.stdout.write(f"ACTOR {cli.find_user_error(error)}" + chr(10))
        ray.get(outer.remote("task"))


for kind in sys.argv[1:]:
    sys.argv[1:] = [f"kind={kind}", "device=cpu"]
    code = 0
    try:
        program.run_main(job, "settings")
    except SystemExit as stop:
        code = stop.code
    except ValueError:
        traceback.print_exc()
        code = 1  # as Python ends
    sys.stderr.write(f"=== {kind} {code} ===" + chr(10))
"""
SETTINGS = "kind: none\ndevice: cpu\nneeded: ???\nhydra:\n  output_subdir: null\n  run:\n    dir: .\n"
KINDS = ["none", "user", "missing", "bug", "ray"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    (folder / "program.py").write_text(SCRIPT)
    (folder / "settings.yaml").write_text(SETTINGS)
    command = [sys.executable, "program.py", *KINDS]
    environment = os.environ | {"RAY_raylet_start_wait_time_s": "180"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=folder, env=environment)
    assert "PIDS" in result.stdout, result.stderr
    stderr, found = result.stderr, {}
    for kind in KINDS:
        before, _, stderr = stderr.partition(f"=== {kind} ")
        code, _, stderr = stderr.partition(" ===\n")
        found[kind] = (int(code), before)
    words = {line.split()[0]: line.partition(" ")[2] for line in result.stdout.splitlines() if line}
    return found | {"pids": [int(pid) for pid in words["PIDS"].split()], "actor": words["ACTOR"]}


@pytest.mark.slow
def test_programs_end_as_they_should(outcomes):
    assert outcomes["none"][0] == 0
    assert outcomes["user"] == (2, "Error: The setting x is 3; set it to 4.\n")
    assert outcomes["missing"] == (2, "Error: The setting needed has no value; pass needed=VALUE.\n")
    code, stderr = outcomes["bug"]
    assert code == 1 and "ValueError: a bug" in stderr
    code, stderr = outcomes["ray"]
    assert code == 2 and stderr.splitlines()[-1] == "Error: The setting x is 3; set it to 4."
    assert outcomes["actor"] == "The setting x is 3; set it to 4."
    assert outcomes["pids"]
    assert not [pid for pid in outcomes["pids"] if os.path.exists(f"/proc/{pid}")]
