"""A UserError that is raised in processes of Ray; test_cli.py has the exit codes of all kinds of errors."""

import pytest
import ray

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError


@ray.remote(num_cpus=0)
def fail():
    raise UserError("The setting x is 3; set it to 4.")


@ray.remote(num_cpus=0)
class BrokenActor:
    def __init__(self):
        raise UserError("The setting x is 3; set it to 4.")

    def ping(self):
        return 1


@ray.remote(num_cpus=0)
def outer(kind):
    ray.get(fail.remote() if kind == "task" else BrokenActor.remote().ping.remote())


@pytest.mark.slow
def test_a_user_error_in_a_task_or_a_constructor_is_one_sentence(capsys, monkeypatch):
    monkeypatch.setattr("rl.common.cli.shutdown_ray", lambda: None)  # one Ray for both
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        for kind in ("task", "actor"):
            with pytest.raises(SystemExit) as end, user_errors_exit():
                ray.get(outer.remote(kind))
            assert end.value.code == 2
            # What Ray says of its other processes may come before or after the program's own lines.
            own = [line for line in capsys.readouterr().err.splitlines() if "pid=" not in line]
            assert own[-1] == "Error: The setting x is 3; set it to 4."
    finally:
        ray.shutdown()
