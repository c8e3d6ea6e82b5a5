"""What a launch script would start, as other programs see it."""

import re

import pytest
from omegaconf import OmegaConf

from rl.common.errors import UserError
from rl.configuration.arguments import run_of
from rl.configuration.names import CHECKOUT, devices, has_gpu
from rl.configuration.settle import settle

pytestmark = pytest.mark.usefixtures("environment")


def test_a_script_s_run(environment):
    environment(MODEL_PATH="/models/it's mine", GPUS_PER_NODE="4", DEVICE="cuda", DPH_SCORER="http://s:1")
    overrides = ["data.train_files='/a b/$x.parquet'", "trainer.nnodes=2"]
    run = run_of("scripts/qwen/alpha.sh", ["my_run", "0.02", *overrides])
    assert (run.program, run.method.name, run.experiment.name) == ("verl.dph.main", "alpha", "qwen_math")
    assert run.environment == {"DPH_SCORER": "http://s:1"}
    assert run.launch.scorer_config == str(CHECKOUT / "rl/scorer/math.yaml")
    assert run.values["actor_rollout_ref.model.path"] == "/models/it's mine"
    assert run.values["data.train_files"] == "/a b/$x.parquet"
    assert run.values["actor_rollout_ref.actor.sft_loss_coeff"] == 0.02
    assert (run.values["trainer.nnodes"], run.values["trainer.n_gpus_per_node"]) == (2, 4)
    assert not any(key.startswith("launch") for key in run.values)


def test_a_method_s_name_and_the_environment_s_settings(environment):
    environment(MODEL_PATH="/models/mine", DEVICE="cpu", PYTHON="/some/python", SETTINGS="llama_math")
    environment(TOTAL_STEPS="010")
    run = run_of("grpo", ["--dry-run=config", "my_run"])
    assert (run.launch.python, run.environment["VERL_PLATFORM"], run.device) == ("/some/python", "cpu", "cpu")
    assert run.experiment.name == "llama_math" and run.dry_run == "config"
    assert run.values["actor_rollout_ref.model.path"] == "/models/mine"
    assert run.values["trainer.total_training_steps"] == 10  # YAML reads 8


def test_an_experiment_of_ones_own(environment, tmp_path):
    own = tmp_path / "experiment" / "mine.yaml"
    own.parent.mkdir()
    own.write_text(
        "# @package _global_\n# My SQL.\ndefaults:\n  - llama_sql\n  - _self_\ntrainer:\n  total_epochs: 9\n"
    )
    environment(SETTINGS=str(own), DEVICE="cpu")
    run = run_of("scripts/llama/js_kl.sh", ["my_run"])
    assert run.values["trainer.total_epochs"] == 9 and run.values["data.max_prompt_length"] == 16000
    assert run.words[2:5] == ["--config-dir", str(tmp_path), "experiment=mine"]
    assert "EPOCHS" in run.variables()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("defaults: [llama_sql, _self_]\ntrainer: {save_freq: 3}", "begin with the line `# @package _global_`"),
        ("# Mine.\n# @package _global_\ndefaults: [llama_sql, _self_]", "begin with the line `# @package _global_`"),
        ("# @package _global_\ndefaults: [_self_, llama_sql]\ntrainer: {save_freq: 3}", "put _self_ last"),
        ("# @package _global_\ntrainer: {save_freq: 3}", "begins with no experiment of ours"),
    ],
)
def test_an_experiment_whose_settings_hydra_would_not_take_is_rejected(environment, tmp_path, content, sentence):
    """Another model was trained, without a word."""
    own = tmp_path / "experiment" / "mine.yaml"
    own.parent.mkdir()
    own.write_text(content)
    environment(SETTINGS=str(own), DEVICE="cpu")
    with pytest.raises(UserError, match=f"mine.yaml.* {re.escape(sentence)}"):
        run_of("js_kl", ["my_run"])


def test_an_experiment_may_be_followed_by_another_file_of_ones_own(environment, tmp_path):
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "mine.yaml").write_text(
        "#@package  _global_\ndefaults: [llama_sql, _self_, more]\ntrainer: {save_freq: 3}"
    )
    (folder / "more.yaml").write_text("# @package _global_\ntrainer: {test_freq: 7}")
    environment(SETTINGS=str(folder / "mine.yaml"), DEVICE="cpu")
    values = run_of("js_kl", ["my_run"]).values
    assert (values["trainer.save_freq"], values["trainer.test_freq"]) == (3, 7)


def test_a_run_that_joins_a_ray_trains_on_its_gpus(environment):
    """This machine may have none."""
    environment(RAY_ADDRESS="10.0.0.1:6379", GPUS_PER_NODE="8")
    run = run_of("js_kl", ["my_run"])
    assert run.device == "cuda" and not run.found_no_gpu and "device=cuda" in run.overrides


REPLACED = """
data: {train_files: [/my/train.parquet], val_files: [/my/dev.parquet]}
trainer: {n_gpus_per_node: 4, save_freq: 50}
actor_rollout_ref: {actor: {sft_loss_coeff: 0.05}}
"""


def test_a_value_that_the_method_or_the_launcher_replaces_is_rejected(environment, tmp_path):
    """It changed nothing, without a word."""
    own = tmp_path / "experiment" / "mine.yaml"
    own.parent.mkdir()
    own.write_text(f"# @package _global_\n# Mine.\ndefaults: [llama_sql, _self_]\n{REPLACED}")
    environment(SETTINGS=str(own), DEVICE="cpu")

    def sentence(method: str, *words: str) -> str:
        with pytest.raises(UserError) as error:
            assert run_of(method, ["my_run", *words]).values
        return str(error.value)

    eta, files = "actor_rollout_ref.actor.sft_loss_coeff", "data.train_files"
    assert f"{eta}=0.05 changes nothing, because js_kl runs with 0.2: leave it out" in sentence("js_kl")
    replaced = sentence("js_kl", f"{eta}=0.3")
    assert f"train_wrong.parquet: leave it out and give {files}=VALUE on the command line" in replaced
    found = sentence("js_kl", f"{eta}=0.3", f"{files}=[a.parquet]")
    assert "n_gpus_per_node=4 changes nothing, because js_kl runs with 1: leave it out and set GPUS_PER_NODE." in found
    environment(SETTINGS=str(own), DEVICE="cpu", GPUS_PER_NODE="4")
    values = run_of("js_kl", ["my_run", f"{eta}=0.3", f"{files}=[a.parquet]"]).values
    assert (values[eta], values["trainer.save_freq"], values["data.val_files"]) == (0.3, 50, ["/my/dev.parquet"])
    # It serves training: for a method that prepares it, the files of training decide nothing.
    assert run_of("get_correct_data_tensor", []).values["trainer.save_freq"] == -1


def test_a_name_of_ours_is_rejected(environment, tmp_path):
    """Ours was taken in its place."""
    folder = tmp_path / "experiment"
    folder.mkdir()
    for name, base in (("llama_sql", "llama_sql"), ("mine", "llama_sql")):
        own = folder / f"{name}.yaml"
        own.write_text(f"# @package _global_\n# Mine.\ndefaults: [{base}, _self_]\n")
        environment(SETTINGS=str(own), DEVICE="cpu")
        with pytest.raises(UserError, match="llama_sql.yaml has the name of a file of ours, .*: rename it."):
            assert run_of("js_kl", ["my_run"]).values


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("data: {train_batchsize: 64}", "data.train_batchsize is not a setting: did you mean data.train_batch_size"),
        ("launch: {near_perfct: 8}", "launch.near_perfct is not a setting: did you mean launch.near_perfect or"),
        ("trainer:\n  total_step: 1", "trainer.total_step is not a setting: did you mean trainer.total_"),
        # A value of one's own, what is below an open section, and a setting of training for another program.
        ("launch: {mine: /m}\nactor_rollout_ref: {model: {path: '${launch.mine}'}}", ""),
        ("actor_rollout_ref: {model: {override_config: {attn_implementation: sdpa}}}", ""),
        ("trainer: {total_training_steps: 3}", ""),
    ],
)
@pytest.mark.parametrize("method", ["js_kl", "offline_sampling"])
def test_an_experiment_of_ones_own_names_settings_that_exist(environment, tmp_path, method, lines, sentence):
    own = tmp_path / "experiment" / "mine.yaml"
    own.parent.mkdir()
    own.write_text(f"# @package _global_\n# Mine.\ndefaults: [llama_sql, _self_]\n{lines}\n")
    environment(SETTINGS=str(own), DEVICE="cpu")
    run = run_of(method, ["my_run"])
    if not sentence:
        assert run.values
        return
    with pytest.raises(UserError) as error:
        assert run.values
    assert str(error.value).startswith(f"{own}: {sentence}") and "on the command line: +KEY=VALUE." in str(error.value)


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("EXPLORED", "both", "EXPLORED='both' is unknown: use one of exp, all."),
    ],
)
def test_a_program_without_the_launcher_checks_what_it_drops(environment, variable, value, sentence):
    """Keys follow from them: another word would be taken for False, or for exp."""
    environment(DEVICE="cpu", **{variable: value})
    config = run_of("js_kl", ["my_run"]).composed
    with pytest.raises(UserError) as error:
        settle(config)
    assert str(error.value) == sentence


@pytest.mark.parametrize("key", ["actor_rollout_ref.model.path", "critic.model.path"])
def test_a_model_s_path_that_ends_in_a_slash(environment, key):
    """verl asserts that it does not; from a variable, by an override, and in a program without `launch`."""
    environment(MODEL_PATH="/models/mine/", DEVICE="cpu")
    run = run_of("js_kl", ["my_run"])
    assert run.values["actor_rollout_ref.model.path"] == "/models/mine"
    assert run_of("js_kl", ["my_run", f"{key}=/other//"]).values[key] == "/other"
    config = OmegaConf.create()
    OmegaConf.update(config, key, "/")
    settle(config)
    assert OmegaConf.select(config, key) == "/"


def test_paths_are_absolute_for_a_ray_that_runs_already(environment, monkeypatch, tmp_path):
    """Its processes have another working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    given = ["data.sft_pt=data/pef.pt", "data.train_files=['~/a.parquet',b.parquet]", "critic.model.path=org/name"]
    given += ["trainer.default_local_dir=out", "data.val_files=hdfs://c/d.parquet", "data.sft_files=None"]
    keys = [word.partition("=")[0] for word in given] + ["actor_rollout_ref.model.path"]
    environment(MODEL_PATH="model", DEVICE="cpu", HOME="/home/me")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    run = run_of("js_kl", ["my_run", *given])
    relative = ["data/pef.pt", ["~/a.parquet", "b.parquet"], "org/name", "out", "hdfs://c/d.parquet", "None", "model"]
    assert [OmegaConf.select(run.config, key) for key in keys] == relative
    environment(RAY_ADDRESS="10.0.0.1:6379")
    here = [f"{tmp_path}/{name}" for name in ("data/pef.pt", "b.parquet", "out", "model")]
    absolute = [here[0], ["/home/me/a.parquet", here[1]], "org/name", here[2], "hdfs://c/d.parquet", "None", here[3]]
    found = run_of("js_kl", ["my_run", *given]).config
    assert [OmegaConf.select(found, key) for key in keys] == absolute


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must hold settings, KEY: VALUE, and below `defaults` a list of names"),
        ("- llama_sql", "must hold settings, KEY: VALUE"),
        ("defaults: llama_sql", "must hold settings, KEY: VALUE"),
        ("defaults: [{override /device: cpu}]", "must hold settings, KEY: VALUE"),
        ("launch: [", "is not YAML: while parsing a flow node"),
        (
            "defaults: [lama_sql]",
            "lama_sql.yaml, which `defaults` names, does not exist: give one of demo, llama_math,",
        ),
        ("defaults: [mine]", "names itself below `defaults`: leave it out."),
        (b"\xff", "is not UTF-8"),
    ],
)
def test_a_faulty_experiment_of_ones_own_is_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "experiment" / "mine.yaml"
    path.parent.mkdir()
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as error:
        run_of("grpo", ["my_run", "--experiment", str(path)]).settings_of_files()
    assert sentence in str(error.value) and "\n" not in str(error.value)


def test_a_folder_whose_name_has_a_quote(tmp_path, environment):
    environment(DEVICE="cpu")
    path = tmp_path / "it's" / "experiment" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("# @package _global_\ndefaults: [llama_sql, _self_]\nlaunch: {near_perfect: 5}\n")
    assert run_of("grpo", ["my_run", "--experiment", str(path)]).composed.launch.near_perfect == 5


def test_mistyped_overrides_name_the_nearest(environment):
    environment(DEVICE="cpu")
    for word, sentence in {
        "data.sft_bach_size=3": "data.sft_bach_size is not a setting: did you mean data.sft_batch_size",
        "+sft_loss_mode=js": "sft_loss_mode is not a setting: its full name is actor_rollout_ref.actor.sft_loss_mode",
        "device=gpu": "device=gpu is unknown: use one of cpu, ",
    }.items():
        with pytest.raises(UserError, match=sentence.replace("+", "[+]")):
            run_of("js_kl", ["my_run", word]).composed  # noqa: B018


@pytest.mark.parametrize("file", ["nvidia0", "dxg"])  # dxg is WSL 2's, for all GPUs
def test_a_gpu_that_is_hidden_is_not_there(tmp_path, monkeypatch, file):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert not has_gpu(tmp_path) and devices("cuda", tmp_path) == 8
    (tmp_path / file).touch()
    assert has_gpu(tmp_path) and devices("cuda", tmp_path) == 1
    for visible, found in (("1", True), ("", False), ("-1", False)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert has_gpu(tmp_path) == found
