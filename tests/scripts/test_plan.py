"""The plan that a script makes before a run on GPUs: its line, what it chooses, and what it warns of."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl.checks.engine import DECIDED, OVERRIDES
from tests.scripts.conftest import values
from tests.scripts.test_paper_settings import EXPERIMENTS

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
CHECKED = "Checked: settings; not the batch, because {}. dph doctor checks files, model, store and scorer too.\n"
NO_FILES, NO_TRAINING = "data.train_files cannot be read", "nothing is trained"
ATTENTION = "+actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2"


@pytest.fixture
def llama(files, tmp_path) -> dict[str, str]:
    """The files of a run; its model's folder holds only config.json."""
    (tmp_path / "model" / "config.json").write_text(json.dumps(LLAMA))
    return files


def engine(started) -> dict[str, str]:
    found = values(started)
    return {name: found[DECIDED.get(name, [key])[0] if name == "OFFLOAD" else key] for name, key in OVERRIDES.items()}


def test_a_run_that_fits(launcher, llama):
    finished = launcher.run("llama/js_kl", "run", ATTENTION, **llama, GPUS_PER_NODE="8")
    assert finished.returncode == 0
    assert finished.stderr == (
        "Plan: 36 of 80 GB in the update, 72 of 80 GB in the rollout, about 10 min a step on 8 x a800 (estimated).\n"
    )
    started = launcher.started()
    defaults = launcher.dry_run("llama/js_kl", "run", ATTENTION, **llama, GPUS_PER_NODE="8")
    assert started.overrides == defaults.overrides


def test_what_is_open_is_chosen(launcher, llama):
    """It is set wherever the setting is used, and nowhere else; the dry run shows the same command."""
    finished = launcher.run("llama/js_kl", "run", ATTENTION, **llama, GPUS_PER_NODE="2")
    assert finished.stderr.endswith(" (estimated). The plan chose OFFLOAD=policy.\n")
    started = launcher.started()
    defaults = launcher.dry_run("llama/js_kl", "run", ATTENTION, **llama, GPUS_PER_NODE="2")
    key = "actor_rollout_ref.actor.fsdp_config.offload_policy"
    assert values(started) == values(defaults) | {key: "True"}
    shown = launcher.run("llama/js_kl", "run", ATTENTION, "--dry-run", **llama, GPUS_PER_NODE="2")
    assert "  launch.offload=policy\n" in shown.stdout and shown.stderr == finished.stderr + CHECKED.format(NO_FILES)


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ([], {"GPU_MEMORY_UTILIZATION": ".7", "OFFLOAD": "False"}),
        (
            ["actor_rollout_ref.rollout.gpu_memory_utilization=0.7"],
            {"OFFLOAD": "False", "TENSOR_PARALLEL": "1", "MAX_TOKENS_PER_GPU": "20096"},
        ),
    ],
    ids=["settings", "override"],
)
def test_what_the_user_sets_stays(launcher, llama, arguments, settings):
    """And is started with a warning if it does not fit: the plan's figures are estimates."""
    words = ["llama/js_kl", "run", ATTENTION, *arguments]
    finished = launcher.run(*words, **llama | settings, GPUS_PER_NODE="4")
    assert finished.returncode == 0 and not finished.stdout
    plan, warning = finished.stderr.splitlines()
    assert plan.startswith("Plan: 52 of 80 GB in the update, 84 of 80 GB in the rollout, ")
    assert warning.startswith(
        "Warning: it would not fit (estimated): the second rollout needs 84 of 80 GB: set OFFLOAD=True"
    )
    assert warning.endswith(" or GPU_MEMORY_UTILIZATION=0.6.")
    assert engine(launcher.started())["OFFLOAD"] == "False"

    finished = launcher.run(*words, **llama | settings, GPUS_PER_NODE="4", PLAN="ignore")
    assert finished.returncode == 0 and not finished.stderr  # no plan is made
    assert engine(launcher.started())["OFFLOAD"] == "False"
    shown = launcher.run(*words, "--dry-run", **llama | settings, GPUS_PER_NODE="4")
    assert shown.returncode == 0 and "Warning: it would not fit" in shown.stderr


@pytest.mark.parametrize(("rank", "planned"), [("1", True), ("2", False)])
def test_no_plan_for_a_node_that_only_scores(launcher, llama, monkeypatch, rank, planned):
    """Nor is it told that it has no GPU."""
    monkeypatch.setattr("rl.configuration.run.has_gpu", lambda: False)
    nodes = {"NNODES": "3", "SCORER_NODES": "1", "NODE_RANK": rank, "MASTER_ADDR": "a", "RAY_AUTH_TOKEN": "secret"}
    finished = launcher.run("llama/js_kl", "run", **llama | nodes | {"DEVICE": ""})
    assert finished.returncode == 0
    said = finished.stderr.splitlines()
    assert [line[:30] for line in said] == [
        "No NVIDIA GPU was found: DEVIC",
        "Warning: it would not fit (est",
    ] * planned


def test_settings_files(launcher, llama):
    chosen = {}
    for script, settings in {"llama/grpo": "omnisql_sql", "qwen/grpo": "qwen_math"}.items():
        finished = launcher.run(script, "run", ATTENTION, **llama, GPUS_PER_NODE="2", SETTINGS=settings)
        assert finished.returncode == 0, finished.stderr
        chosen[settings] = engine(launcher.started())
    assert chosen["omnisql_sql"]["OFFLOAD"] == "False"
    assert chosen["qwen_math"]["MAX_TOKENS_PER_GPU"] == "8192"


@pytest.mark.parametrize(
    ("experiment", "method"),
    [*((name, "js_definition") for name in EXPERIMENTS), ("llama_sql", "offline_sampling")]
    + [("omnisql_sql", "get_correct_data_tensor")],
)
def test_the_paper_s_experiments_on_its_cluster(launcher, experiment, method):
    """On 4 nodes with 8 A800 each the plan leaves every setting as it is, and knows the models without the Hub."""
    folder, settings, _ = EXPERIMENTS[experiment]
    cluster = dict(NNODES="4", NODE_RANK="0", GPUS_PER_NODE="8", SETTINGS=settings or experiment)
    shown = launcher.run(f"{folder}/{method}", "run", ATTENTION, "--dry-run", **cluster)
    assert shown.returncode == 0 and shown.stderr.startswith("Plan: ") and "chose" not in shown.stderr
    checked = CHECKED.format(NO_FILES if method == "js_definition" else NO_TRAINING)
    assert shown.stderr.endswith(f"on 32 x a800 (estimated).\n{checked}") and shown.stderr.count("\n") == 2


def test_without_a_plan_the_defaults_count(launcher, files):
    """An unknown model, and a run that is not modelled."""
    for arguments, settings, sentence in (
        ([], {"MODEL_PATH": "me/mine"}, "the shape of me/mine is not known here"),
        (["algorithm.adv_estimator=gae"], {"MODEL_PATH": "Qwen/Qwen3-8B"}, "a critic (algorithm.adv_estimator=gae)"),
        ([], {"GPU_TYPE": "v100", "MODEL_PATH": "Qwen/Qwen3-8B"}, "'v100' is not a known GPU type"),
    ):
        finished = launcher.run("llama/grpo", "run", *arguments, **files | settings)
        assert finished.returncode == 0 and finished.stderr.startswith(f"Plan: not made: {sentence}")
        assert engine(launcher.started())["GPU_MEMORY_UTILIZATION"] == "0.7"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_variable_that_is_nearly_a_setting_and_one_of_another_method(launcher, llama, device):
    settings = llama | {"DEVICE": device, "MAX_PROMT_LENGTH": "10", "MODEL_HOME": "/x", "SUCCESS_CAP": ".6"}
    finished = launcher.run("llama/grpo", "run", **settings)
    warnings = [line for line in finished.stderr.splitlines() if line.startswith("Warning: ")]
    assert warnings[0] == "Warning: MAX_PROMT_LENGTH is not a setting; did you mean MAX_PROMPT_LENGTH?"
    assert (
        warnings[1]
        == "Warning: SUCCESS_CAP is set, but grpo does not read it: forward_kl_cap, grpo_cap, js_kl_cap would."
    )
    assert [line[:30] for line in warnings[2:]] == ["Warning: it would not fit (est"] * (device == "cpu")
    assert finished.returncode == 0 and launcher.started()


def test_a_batch_that_the_prompts_do_not_fill(launcher, llama, tmp_path):
    prompts = tmp_path / "prompts.parquet"
    pq.write_table(pa.table({"id": range(27)}), prompts)
    settings = llama | {"DEVICE": "cpu", "BASELINE_FILES": str(prompts), "MINI_BATCH_SIZE": "1"}
    for batch, code in (("27", 0), ("28", 2)):
        finished = launcher.run("llama/grpo", "run", "--dry-run", **settings | {"TRAIN_BATCH_SIZE": batch})
        assert finished.returncode == code, finished.stderr
    assert "Error: data.train_batch_size=28 is more than the 27 prompts of data.train_files" in finished.stderr


def test_the_plan_on_a_cpu_and_a_wrong_setting(launcher, llama):
    """Main memory is compared with what the run needs: 8 billion parameters do not fit here, and the run starts."""
    finished = launcher.run("llama/grpo", "run", **llama | {"DEVICE": "cpu"})
    assert finished.returncode == 0 and launcher.started()
    assert finished.stderr.startswith("Warning: it would not fit (estimated): it needs 2024 of ")
    assert not launcher.run("llama/grpo", "run", **llama | {"DEVICE": "cpu", "PLAN": "ignore"}).stderr
    finished = launcher.run("llama/grpo", "run", **llama | {"PLAN": "no"})
    assert finished.returncode == 2 and finished.stderr.startswith(
        "Error: PLAN='no' is unknown: use one of check, ignore."
    )
