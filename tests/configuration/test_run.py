"""What a launch script would start, as other programs see it."""

import re

import pytest
from omegaconf import OmegaConf

from rl.common.errors import UserError
from rl.configuration.arguments import run_of
from rl.configuration.names import CHECKOUT, devices, has_gpu
from rl.configuration.old_variables import REPLACED_BY
from rl.configuration.settle import settle
from rl.configuration.variables import check_variables, known_variables, raw

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


@pytest.fixture
def own(tmp_path, environment):
    """Write an experiment of one's own; its path as a word of the command line."""
    environment(DEVICE="cpu")

    def write(content: str | bytes, name: str = "mine", head: str = "# @package _global_\n# Mine.\n") -> str:
        path = tmp_path / "it's" / "experiment" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else (head + content).encode())
        return f"experiment={path}"

    return write


EXTENDS = "defaults: [llama_sql, _self_]\n"


def test_an_experiment_of_ones_own(own, tmp_path):
    """With a quote and other letters in its path; it may be followed by another file of one's own."""
    own("trainer: {test_freq: 7}", "more")
    word = own("defaults: [llama_sql, _self_, more]\ntrainer: {total_epochs: 9, n_gpus_per_node: 2}", "größe (2)")
    run = run_of("scripts/llama/js_kl.sh", ["my_run", word])
    assert (run.values["trainer.total_epochs"], run.values["trainer.n_gpus_per_node"]) == (9, 2)
    assert (run.values["trainer.test_freq"], run.values["data.max_prompt_length"]) == (7, 16000)
    assert run.words[2:5] == ["--config-dir", str(tmp_path / "it's"), "experiment='größe (2)'"]


@pytest.mark.parametrize(
    ("head", "content", "sentence"),
    [
        # Another model was trained, without a word.
        ("", f"{EXTENDS}trainer: {{save_freq: 3}}", "does not begin with the line `# @package _global_`"),
        (None, "defaults: [_self_, llama_sql]\ntrainer: {save_freq: 3}", "put _self_ last"),
        (None, "trainer: {save_freq: 3}", "does not extend one of this project's experiments"),
        (None, f"{EXTENDS}data: {{train_batchsize: 64}}", "not a setting: did you mean data.train_batch_size"),
        (None, f"{EXTENDS}launch: {{near_perfct: 8}}", "not a setting: did you mean launch.near_perfect or"),
        (None, "defaults: llama_sql", "must hold settings, KEY: VALUE"),
        (None, b"\xff", "is not YAML in UTF-8"),
        (None, "defaults: [lama_sql]", "lama_sql.yaml, which `defaults` names, does not exist: give one of demo, "),
        (None, "defaults: [mine]", "names itself below `defaults`: leave it out."),
        # A value of one's own, what is below an open section, and a setting of training for another program.
        (None, f"{EXTENDS}launch: {{mine: /m}}\nactor_rollout_ref: {{model: {{path: '${{launch.mine}}'}}}}", ""),
        (None, f"{EXTENDS}actor_rollout_ref: {{model: {{override_config: {{attn_implementation: sdpa}}}}}}", ""),
        (None, f"{EXTENDS}trainer: {{total_training_steps: 3}}", ""),
    ],
)
def test_a_faulty_experiment_of_ones_own_is_one_sentence(own, head, content, sentence):
    word = own(content) if head is None else own(content, head=head)
    method = "offline_sampling" if "total_training_steps" in str(content) else "js_kl"
    if not sentence:
        assert run_of(method, ["my_run", word]).values
        return
    with pytest.raises(UserError) as error:
        assert run_of(method, ["my_run", word]).values
    assert sentence in str(error.value) and "it's" in str(error.value) and "\n" not in str(error.value)


def test_a_name_of_ours_is_rejected(own):
    """Ours was taken in its place."""
    own("defaults: [qwen_math, _self_]\n", "llama_sql")
    with pytest.raises(UserError, match=r"llama_sql.yaml has the name of one of this project's files, .*: rename it\."):
        run_of("js_kl", ["my_run", own(EXTENDS)])


def test_a_value_that_the_method_replaces_is_rejected(own):
    """It changed nothing, without a word."""
    eta, files = "actor_rollout_ref.actor.sft_loss_coeff", "data.train_files"
    word = own(
        f"{EXTENDS}data: {{train_files: [/my/train.parquet], val_files: [/my/dev.parquet]}}\n"
        "trainer: {save_freq: 50}\nactor_rollout_ref: {actor: {sft_loss_coeff: 0.05}}\n"
    )
    with pytest.raises(UserError, match=f"{eta}=0.05 changes nothing, because js_kl runs with 0.2: give {eta}=VALUE"):
        assert run_of("js_kl", ["my_run", word]).values
    with pytest.raises(UserError, match=f"{re.escape(files)}=.* runs with .*train_wrong.parquet: give {files}=VALUE"):
        assert run_of("js_kl", ["my_run", word, f"{eta}=0.3"]).values
    values = run_of("js_kl", ["my_run", word, f"{eta}=0.3", f"{files}=[a.parquet]"]).values
    assert (values[eta], values["trainer.save_freq"], values["data.val_files"]) == (0.3, 50, ["/my/dev.parquet"])
    # It serves training: for a method that prepares it, the files of training decide nothing.
    assert run_of("get_correct_data_tensor", [word]).values["trainer.save_freq"] == -1


def test_a_run_that_joins_a_ray_trains_on_its_gpus(environment):
    """This machine may have none."""
    environment(RAY_ADDRESS="10.0.0.1:6379", GPUS_PER_NODE="8")
    run = run_of("js_kl", ["my_run"])
    assert run.device == "cuda" and "device=cuda" in run.overrides


def test_a_program_without_the_launcher_checks_what_it_drops(environment):
    """Keys follow from it: another word would be taken for exp."""
    environment(DEVICE="cpu")
    with pytest.raises(UserError, match="launch.explored='both' must be 'exp' or 'all'"):
        settle(run_of("js_kl", ["my_run", "launch.explored=both"]).composed)


def test_variables_that_no_run_reads_any_more():
    """Each names a key that exists."""
    composed = [run_of(*words).composed for words in (("dapo", ["a"]), ("chord_mu", ["a"]), ("offline_sampling", []))]
    keys = {key for config in composed for key in raw(config)} | {"experiment", "launch.folder", "data.sft_responses"}
    assert {*REPLACED_BY.values()} <= keys and not {*REPLACED_BY} & {*known_variables()}
    with pytest.raises(UserError, match="TOTAL_STEPS is not read any more: unset it, and give trainer.total_"):
        check_variables({"TOTAL_STEPS": "3", "MODEL_PATH": "m"})
    check_variables({"TOTAL_STEPS": ""})


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


@pytest.mark.parametrize("file", ["nvidia0", "dxg"])  # dxg is WSL 2's, for all GPUs
def test_a_gpu_that_is_hidden_is_not_there(tmp_path, monkeypatch, file):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert not has_gpu(tmp_path) and devices("cuda", tmp_path) == 8
    (tmp_path / file).touch()
    assert has_gpu(tmp_path) and devices("cuda", tmp_path) == 1
    for visible, found in (("", False), ("-1", False), ("2,3,5", True)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert has_gpu(tmp_path) == found
    assert devices("cuda", tmp_path) == 3
