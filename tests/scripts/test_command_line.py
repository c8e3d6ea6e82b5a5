"""What stands on a script's command line: names and numbers by position, overrides and --dry-run."""

import json

import pytest
import yaml

from rl.common.errors import UserError
from rl.scorer.client.servers import ServerPool
from tests.scripts.conftest import SCRIPTS, values

ACTOR = "actor_rollout_ref.actor"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["js_kl", "my_run", "0.2"], {f"{ACTOR}.sft_loss_coeff": 0.2, "data.seed": 1, "data.sft_seed": 1}),
        (["js_definition", "my_run", "1e-2"], {f"{ACTOR}.sft_loss_coeff": 0.01, f"{ACTOR}.sft_loss_mode": "js"}),
        (["alpha", "my_run", "0.01", "0.8", "4"], {f"{ACTOR}.alpha_coeff": 0.8, "data.seed": 4, "data.sft_seed": 4}),
        (["dapo", "my_run", "5", "trainer.nnodes=4"], {"data.seed": 5, "trainer.nnodes": 4}),
        (["offline_sampling", "my_run"], {"presample.n": 8}),
        (["get_correct_data_tensor", "my_run", "data.sft_coverage=solved"], {f"{ACTOR}.generate_sft": True}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_positions(launcher, arguments, expected):
    script, *rest = arguments
    found = values(launcher.dry_run(f"llama/{script}", *rest))
    assert {key: found[key] for key in expected} == expected and found["trainer.experiment_name"] == "my_run"


def test_what_the_paper_s_readme_types(launcher, files):
    """Its table of modes, as overrides of one script."""
    none = ["data.sft_files=None", "data.sft_pt=None"]
    actor = "actor_rollout_ref.actor"
    by_mode = [f"{actor}.sft_loss_mode=reverse_kl", f"{actor}.use_kl_loss=True", *none]
    finished = launcher.run("llama/js_kl", "run", "0.01", *by_mode, **files | {"SFT_PT": "/not/there.pt"})
    assert finished.returncode == 0, finished.stderr
    config = launcher.started().config()
    assert config.actor_rollout_ref.actor.sft_loss_mode == "reverse_kl" and config.data.sft_pt == "None"


def test_the_program_is_started_with_what_the_dry_run_says(launcher, files):
    announced = launcher.dry_run("llama/js_kl", "run", **files, DPH_SCORER="http://10.0.0.1:5001")
    finished = launcher.run("llama/js_kl", "run", **files, DPH_SCORER="http://10.0.0.1:5001")
    assert finished.returncode == 0, finished.stderr
    started = launcher.started()
    assert (started.module, started.overrides) == (announced.module, announced.overrides)
    assert started.environment["DPH_SCORER"] == "http://10.0.0.1:5001"
    assert "VERL_PLATFORM" not in started.environment


def test_a_script_that_sh_runs_where_cd_prints_the_folder(launcher):
    """Debian's sh is dash: it ended in "Bad substitution". cd prints with CDPATH."""
    said = launcher.bash("-c", f"cd {SCRIPTS.parent} && sh scripts/llama/grpo.sh run --dry-run", CDPATH=".")
    assert said.returncode == 0 and "experiment=llama_sql" in said.stdout, said.stderr


def test_the_printed_command_can_be_pasted(launcher, files):
    """Also with folders whose names a shell or Hydra would read."""
    odd = launcher.folder / "a (b), {c} $d"
    environment = files | {"SFT_PT": f"{odd}/pef.pt", "OUTPUT_DIR": f"{odd}/out", "DEVICE": "cpu"}
    finished = launcher.run("llama/js_kl", "--dry-run", "run", "+extra.key='x y'", **environment)
    announced = launcher.dry_run("llama/js_kl", "run", "+extra.key='x y'", **environment)
    assert launcher.bash("-c", finished.stdout).returncode == 0
    pasted = launcher.started()
    assert pasted.overrides == announced.overrides
    for name in ("VERL_PLATFORM", "OMP_NUM_THREADS", "DPH_SCORER"):
        assert pasted.environment[name] == announced.environment[name]
    config = pasted.config()
    assert config.data.sft_pt == f"{odd}/pef.pt" and config.extra.key == "x y"
    assert config.trainer.default_local_dir == f"{odd}/out/run"


def test_a_dry_run_of_the_configuration(launcher):
    """No file has to exist, and none is written."""
    finished = launcher.run("qwen/alpha", "--dry-run=config", "run", "0.02", "0.5", "2")
    assert finished.returncode == 0, finished.stderr
    config = yaml.safe_load(finished.stdout)
    assert config["actor_rollout_ref"]["actor"]["alpha_coeff"] == 0.5
    assert config["data"]["max_response_length"] == 2048 and config["trainer"]["experiment_name"] == "run"
    assert {path.name for path in launcher.folder.iterdir()} == {"recorder"}


@pytest.mark.parametrize(("folder", "kind"), [("llama", "sql"), ("qwen", "math")])
def test_without_a_scorer_the_task_s_own_is_started(launcher, files, folder, kind):
    """On a free port. A dry run shows no address in its place, because a program would take it for another run's."""
    announced = launcher.dry_run(f"{folder}/grpo", "run", DPH_SCORER="")
    assert announced.environment["DPH_SCORER"] == "http://HOST:PORT"
    with pytest.raises(UserError, match="HOST:PORT' is not of the form"):
        ServerPool(announced.environment["DPH_SCORER"])
    assert launcher.run(f"{folder}/grpo", "run", **files | {"DPH_SCORER": ""}).returncode == 0
    node, program = json.loads(launcher.record.read_text())
    assert node["scorer_port"] == 0 and node["scorer_config"].endswith(f"/rl/scorer/{kind}.yaml")
    assert program[1:3] == ["-m", "verl.dph.main"]


def test_the_exit_code_is_the_program_s(launcher, files):
    finished = launcher.bash(f"{SCRIPTS}/llama/grpo.sh", "run", **files | {"RECORDER_EXITS": "7"})
    assert finished.returncode == 7


def test_trackers_whose_keys_are_set_log_too(launcher):
    assert values(launcher.dry_run("llama/grpo", "run"))["trainer.logger"] == ["console", "file"]
    started = launcher.dry_run("llama/grpo", "run", **dict.fromkeys(("SWANLAB_API_KEY", "WANDB_API_KEY"), "secret"))
    assert values(started)["trainer.logger"] == ["console", "file", "swanlab", "wandb"]
    assert "secret" not in " ".join(started.overrides)


def test_another_model_has_folders_of_its_own(launcher):
    """The folders of the paper's models keep the paper's names, also for a model in a local folder."""
    launcher.environment.pop("OUTPUT_DIR")

    def folders(**environment):
        found = values(launcher.dry_run("llama/js_kl", "run", **environment))
        return [found["data.sft_pt"], found["trainer.default_local_dir"]]

    root = SCRIPTS.parent
    for model in ("meta-llama/Llama-3.1-8B-Instruct", "/models/Llama-3.1-8B-Instruct/"):
        paper = [f"{root}/data/sql/llama3.1-8b/8b_llama3.1_all_right.pt", f"{root}/outputs/llama-sql/run"]
        assert folders(MODEL_PATH=model) == paper
    mine = [f"{root}/data/sql/tiny-2b/all_right.pt", f"{root}/outputs/tiny-2b-sql/run"]
    assert folders(MODEL_PATH="/models/Tiny-2B") == mine


def test_without_validation_files_there_is_no_validation(launcher, files):
    started = launcher.dry_run("llama/js_kl", "run", **files | {"VAL_FILES": ""})
    assert values(started)["data.val_files"] is None  # main.py then validates nothing
    finished = launcher.run("llama/js_kl", "run", **files | {"VAL_FILES": "/none.parquet"})
    assert "VAL_FILES= trains without validation" in finished.stderr
