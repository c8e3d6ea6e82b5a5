"""cluster.sh and the launcher's options for a node: nodes, rank and head from the variables of each scheduler."""

import os
import subprocess
from dataclasses import dataclass
from unittest import mock

import pytest

from rl.cluster.ray_node import Node
from rl.common.errors import UserError
from rl.configuration.arguments import run_of
from rl.configuration.variables import forget_empty_variables
from rl.launch.__main__ import node_of
from tests.programs import REPOSITORY
from tests.scripts.conftest import composed_faster

LIB = REPOSITORY / "scripts" / "lib"
# As run.sh sources it.
PROGRAM = """
set -euo pipefail
fail() { printf 'Error: %s\n' "$1" >&2; exit 2; }
source "$LIB/cluster.sh"
cluster_detect
for variable in NNODES NODE_RANK MASTER_ADDR GPUS_PER_NODE; do echo "$variable=${!variable}"; done
"""
SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_NUM_NODES": "4",
    "SLURM_NODEID": "2",
    "SLURM_GPUS_ON_NODE": "4",
    "SLURM_JOB_NODELIST": "a800-[003,005-007]",
}
MODELARTS = {
    "MA_NUM_HOSTS": "2",
    "MA_NUM_GPUS": "8",
    "VC_TASK_INDEX": "1",
    "VC_WORKER_HOSTS": "job-worker-0.job,job-worker-1.job",
}
PYTORCHJOB = {"WORLD_SIZE": "3", "RANK": "1", "MASTER_ADDR": "dph-master-0", "MASTER_PORT": "23456"}
# nprocPerNode: 8
PET = {
    "PET_NNODES": "3",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "dph-master-0",
    "PET_NPROC_PER_NODE": "8",
    "WORLD_SIZE": "24",
    "RANK": "1",
}
PLAIN = {"NNODES": "4", "NODE_RANK": "3", "MASTER_ADDR": "10.0.0.1"}
TOKEN = {"RAY_AUTH_TOKEN": "secret"}


@dataclass
class Detected:
    """Nodes, rank, head, GPUs and training nodes that the launcher finds; what it runs here; its error."""

    found: tuple[str, ...] = ()
    node: Node | None = None
    error: str = ""


def run(path: str = "", *words: str, **environment: str) -> Detected:
    environment = {"PATH": path + os.environ["PATH"], "LIB": str(LIB), "DEVICE": "cuda"} | TOKEN | environment
    finished = subprocess.run(["bash", "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60)
    if finished.returncode:
        assert finished.returncode == 2 and not finished.stdout
        return Detected(error=finished.stderr.strip().removeprefix("Error: "))
    environment |= dict(line.split("=", 1) for line in finished.stdout.splitlines())
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        mock.patch("rl.configuration.compose.compose", composed_faster),
    ):
        forget_empty_variables()
        try:
            launched = run_of("scripts/llama/grpo.sh", ["name", *words])
            assert launched.config  # which checks its values
            node = node_of(launched)
        except UserError as error:
            return Detected(error=str(error))
        trainer = launched.composed.trainer
        found = (*(environment[name] for name in ("NNODES", "NODE_RANK", "MASTER_ADDR")), str(trainer.n_gpus_per_node))
        return Detected((*found, str(trainer.nnodes)), node)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ("1", "0", "", "8", "1")),
        ({"GPUS_PER_NODE": "2", "NODE_RANK": "", "NNODES": ""}, ("1", "0", "", "2", "1")),
        (PLAIN, ("4", "3", "10.0.0.1", "8", "4")),
        (SLURM, ("4", "2", "a800-003", "4", "4")),
        (SLURM | {"SLURM_JOB_NODELIST": "gpu[07-09].cluster,gpu12"}, ("4", "2", "gpu07.cluster", "4", "4")),
        # srun on some of the job's nodes
        (
            SLURM | {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "a800-[005-006]", "SLURM_NODEID": "1"},
            ("2", "1", "a800-005", "4", "2"),
        ),
        # one node of a larger job, by hand
        (SLURM | {"SLURM_STEP_ID": "", "NNODES": "1"}, ("1", "0", "", "4", "1")),
        # the user's variables override
        (SLURM | {"GPUS_PER_NODE": "8", "MASTER_ADDR": "ib0-003"}, ("4", "2", "ib0-003", "8", "4")),
        (SLURM | {"SLURM_STEP_ID": ""} | PLAIN, ("4", "3", "10.0.0.1", "4", "4")),
        (MODELARTS, ("2", "1", "job-worker-0.job", "8", "2")),
        (PYTORCHJOB, ("3", "1", "dph-master-0", "8", "3")),
        (PET, ("3", "1", "dph-master-0", "8", "3")),
    ],
)
def test_each_environment_is_read(environment, expected):
    assert run(**environment).found == expected


def test_scontrol_is_asked_for_the_hosts(tmp_path):
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\n[ "$*" = "show hostnames a800-[003,005-007]" ] && printf "first\\nsecond\\n"\n')
    scontrol.chmod(0o755)
    assert run(path=f"{tmp_path}:", **SLURM).found[2] == "first"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"NNODES": "3"}, "this node's number is not known: set NODE_RANK"),
        ({"NNODES": "3", "NODE_RANK": "1"}, "no head is named: set MASTER_ADDR"),
        (PLAIN | {"NODE_RANK": "4"}, "NODE_RANK=4 is not between 0 and 3"),
        (PLAIN | {"RAY_AUTH_TOKEN": ""}, "RAY_AUTH_TOKEN is not set: give all nodes of the run the same secret"),
        (SLURM | {"NNODES": "2"}, "NNODES=2, but SLURM has 4 nodes"),
        (SLURM | {"NODE_RANK": "1"}, "NODE_RANK=1, but SLURM calls this node 2"),
        (SLURM | {"SLURM_STEP_ID": ""}, "was not started by srun"),
        (SLURM | {"SLURM_STEP_NUM_TASKS": "32"}, "srun started 32 tasks on 4 nodes"),
        (MODELARTS | {"MA_NUM_HOSTS": "3"}, "MA_NUM_HOSTS=3, but VC_WORKER_HOSTS names 2 hosts"),
        (PYTORCHJOB | {"RANK": ""}, "set NODE_RANK"),
        (PET | {"PET_NNODES": "1:3"}, "the PyTorchJob has '1:3' nodes"),
        ({"RAY_ADDRESS": "10.0.0.1:6379"}, "name the scorers in DPH_SCORER too"),
    ],
)
def test_what_cannot_be_is_one_sentence(environment, said):
    sentence = run(**environment).error
    assert said in sentence and "\n" not in sentence


@pytest.mark.parametrize(
    ("environment", "direct"),
    [
        ({}, False),
        ({"DPH_SCORER": "http://10.0.0.9:5001"}, True),
        ({"DPH_SCORER": "http://10.0.0.9:5001", "RAY_ADDRESS": "10.0.0.1:6379", "NNODES": "4"}, True),
    ],
)
def test_a_command_that_needs_nothing_around_it_is_started_directly(environment, direct):
    assert direct == (run(**environment).node is None)
