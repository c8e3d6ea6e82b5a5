"""Two nodes on one machine, through a launch script: a rank of training on each, a scorer on the second, which dies."""

import json
from pathlib import Path

import psutil
import pytest

from rl.demo.task import TaskSettings, make_task
from rl.scorer.client.protocol import OUTCOMES
from tests.cluster.conftest import address, write_scorer_config
from tests.programs import SMALL_RUN, apart
from tests.tiny_run import save_demo_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

# The test sees the second step, and kills the scorer while the others are made.
STEPS = 6


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> dict[str, str]:
    """The variables and settings of a tiny run on the demo's task."""
    folder = tmp_path_factory.mktemp("cluster")
    make_task(folder / "task", TaskSettings(train=8, eval=1, sft=1))
    save_demo_model(folder / "model")
    return SMALL_RUN | {
        "VERBOSE": "1",
        "MODEL_PATH": str(folder / "model"),
        "TRAIN_FILE": str(folder / "task" / "train.parquet"),
        "VAL_FILES": str(folder / "task" / "test_in_domain.parquet"),
        "launch.scorer_config": str(write_scorer_config(folder / "sql.yaml", folder / "task" / "databases")),
        "OUTPUT_DIR": str(folder / "runs"),
        "data.max_prompt_length": "40",
        "data.max_response_length": "16",
        "data.train_batch_size": "2",
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": "4000",
        "trainer.total_training_steps": str(STEPS),
        "trainer.save_freq": str(STEPS),
    }


def count(node, name: str) -> int:
    """Processes of a node by how their name begins; Ray's workers are called by their actor and its method."""
    of_node = {process.pid for process in node.family()}
    running = psutil.process_iter(["pid", "name"])
    return sum(process.pid in of_node and process.info["name"].startswith(name) for process in running)


def waits_at(port: int) -> bool:
    """Whether bytes of a connection to this port are not read yet, by the kernel's table."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, _, queues, *_ = line.split()
        if local.endswith(f":{port:04X}") and not queues.endswith(":00000000"):
            return True
    return False


def test_a_scorer_dies_and_no_reward_is_lost(cluster, settings):
    shared = settings | {
        "NNODES": "2",
        "MASTER_ADDR": address(0),
        "launch.ray_port": str(cluster.ray_port),
        "launch.scorer_port": str(cluster.scorer_port),
    }
    variables, words = apart(shared)
    script = ["bash", "scripts/llama/grpo.sh", "two", *words]
    head, worker = nodes = [
        cluster.start([*script, f"launch.node_address={address(rank)}"], **variables, NODE_RANK=str(rank))
        for rank in range(2)
    ]
    head.wait_for_text("step:2 ")
    assert [count(node, "raylet") for node in nodes] == [count(node, "ray::WorkerDict") for node in nodes] == [1, 1]
    [server] = cluster.processes("rl.scorer")
    server.suspend()
    head.wait_for(lambda: waits_at(cluster.scorer_port))
    server.kill()
    worker.wait_for_text("it is restarted")
    assert head.end() == 0, head.text()[-6000:]
    assert worker.end() == 0, worker.text()
    run = Path(settings["OUTPUT_DIR"]) / "two"
    assert len([*(run / f"global_step_{STEPS}" / "actor").glob("model_world_size_2_rank_*.pt")]) == 2
    assert not list(run.glob(".shared-*"))

    [log] = (run / "metrics").glob("*.jsonl")
    steps = [json.loads(line)["data"] for line in log.read_text().splitlines()]
    assert len(steps) == STEPS
    for metrics in steps:
        assert metrics["dph/failed_rollouts"] == 0
        assert sum(metrics[f"dph/outcome/{outcome}"] for outcome in OUTCOMES) == pytest.approx(1)
    assert sum(metrics["dph/scorer/retries"] for metrics in steps) > 0

    assert not cluster.processes()
    assert not [process for process in psutil.process_iter(["cmdline"]) if str(cluster.temporary) in str(process.info)]
