"""`verl.dph.evaluate` as a user calls it: settings, presets, a stored base, the report; what it rejects.

Random responses replace the engine's and the scorer's: tests/end_to_end evaluates with a real engine and scorer.
"""

import contextlib
import io
import json
import logging
import os
import random
import shutil
import sys
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from safetensors.torch import load_file

from rl.common.errors import UserError
from rl.common.run_lock import sole_run
from rl.configuration.compose import compose
from rl.configuration.names import EVALUATE
from rl.data.sample_file import SampleWriter, read_metadata
from rl.data.training_run import MANIFEST, MANIFEST_FORMAT
from tests.sample_files import record
from verl.dph import evaluate
from verl.dph.config.program import run_main
from verl.dph.sampling import checkpoint

pytestmark = pytest.mark.timeout(900)

WORDS = ["<pad>", "<eos>", "<unk>", "question", "number", *map(str, range(20))]
QUESTIONS = 6
VARIABLES = {"NNODES": "1", "GPUS_PER_NODE": "2", "DEVICE": "cpu", "VERL_PLATFORM": "cpu", "VERBOSE": "1"}
VARIABLES["DPH_SCORER"] = "http://127.0.0.1:9"  # nobody asks it: check_scorer stands in for it
GOLD = {"db_id": "shop/shop.sqlite", "gold_sql": "SELECT name FROM item", "cmp_method": "bird"}


@contextlib.asynccontextmanager
async def rollout_client(config):
    data, rollout = config.data, config.actor_rollout_ref.rollout
    print("engine:", data.max_prompt_length, data.max_response_length, rollout.max_model_len)
    yield


async def draw(job, engine):
    """Random answers; the models of the base are right less often."""
    name = "/".join(job.output.relative_to(Path.cwd()).parts[1:-1])
    print("drawn:", name, job.output.name)
    rng = random.Random(f"{name} {job.output.name}")
    with SampleWriter(job.output, job.metadata) as writer:
        for prompt in job.prompts:
            for sample in range(job.settings.n):
                acc = int(rng.random() < (0.5 if name.startswith("base") else 0.8))
                sql = prompt.row.data_source == "bird"
                pred = f"SELECT a FROM t WHERE b = {rng.randrange(3)}" if sql else str(rng.randrange(3))
                writer.append(record(prompt.id, sample, acc, pred=pred, data_source=prompt.row.data_source))


async def check_scorer(config, rows):
    found = {row.id for row in rows}
    print("asked:" if found else "waited for")
    if found and config.evaluate.title == "no such database":
        raise UserError("bird_dev.parquet row 0: the scorer has no database shop/shop.sqlite.")


def merge(*arguments, merge=checkpoint._merge):
    print("merged:", arguments[0])
    merge(*arguments)


def run_program(words: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `python -m verl.dph.evaluate` with these words."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level  # Hydra's would outlive this module's fixture
    with (
        pytest.MonkeyPatch.context() as patch,
        mock.patch.dict(os.environ, VARIABLES),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        for replaced in (rollout_client, draw, check_scorer):
            patch.setattr(evaluate, replaced.__name__, replaced)
        patch.setattr(checkpoint, "_merge", merge)
        patch.setattr(sys, "argv", ["evaluate", *words])
        try:
            run_main(evaluate.main, EVALUATE)
        except SystemExit as stop:
            code = stop.code
    GlobalHydra.instance().clear()
    root.handlers[:] = handlers
    root.setLevel(level)
    return code, out.getvalue(), err.getvalue()


def write_rows(path: Path, first_id: int, data_source: str, truth) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "data_source": data_source,
            "prompt": [{"role": "user", "content": f"question number {number}"}],
            "reward_model": {"style": "rule", "ground_truth": truth},
            "id": first_id + number,
            "extra_info": {"difficulty": ("simple", "moderate")[number % 2]},
        }
        for number in range(QUESTIONS)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)


def leave_shards_alone(actor: Path) -> None:
    """A checkpoint as one rank writes it without hf_model: shards, and a Hugging Face folder without weights."""
    weights = actor / "huggingface" / "model.safetensors"
    torch.save(load_file(weights), actor / "model_world_size_1_rank_0.pt")
    weights.unlink()
    (actor / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": 1}))


def rejected(folder: Path) -> dict[str, dict]:
    """{sentence: what it rejects below evaluate}."""
    base, run, stored = str(folder / "base"), str(folder / "run"), str(folder / "first")
    js = {"models": {"base": base, "js": run}}
    return {
        "has checkpoints of the steps 3, 5, 7 up to 7: name some of these, or write all": js | {"checkpoints": [5, 9]},
        "but no model of evaluate.models is a training run": {"checkpoints": "all"},
        "names a stored base run and evaluate.models has base too: use one of them.": {"base": stored},
        "bird has 4 samples per prompt, but the report's keep rate needs Pass@8: raise n": {
            "settings": {"bird": {"n": 4}}
        },
        "js and grpo have one label in the report: give one another in evaluate.methods.": {
            "models": {"base": base, "js": run, "grpo": run},
            "methods": {"js": {"label": "GRPO"}},
        },
        "evaluate.splits has 'mine.greedy', and files": {"splits": {"mine.greedy": str(folder / "other.parquet")}},
        "evaluate.models has bsae and no base, and evaluate.base is null, so there": {"models": {"bsae": base}},
        "first has a report of grpo on amc23, bird. This one would": {
            "output": stored,
            "models": {"base": base, "js": run},
            "benchmarks": ["bird"],
        },
        "evaluate.models.js=./typo holds no config.json": {"models": {"base": base, "js": "./typo"}},
    }


@pytest.fixture(scope="module")
def ended(tmp_path_factory, word_llama):
    """The folder; of every run below (exit code, stdout, stderr)."""
    folder = tmp_path_factory.mktemp("evaluate")
    word_llama(folder / "base", WORDS, template="{{ messages[0]['content'] }}")
    checkpoint = folder / "run" / "global_step_7" / "actor"
    shutil.copytree(folder / "base", checkpoint / "huggingface")
    for step in (3, 5, 9):  # 9 is what a run leaves that was stopped while it saved
        shutil.copytree(folder / "base", folder / "run" / f"global_step_{step}" / "actor" / "huggingface")
    leave_shards_alone(folder / "run" / "global_step_3" / "actor")
    (folder / "run" / "global_step_4").mkdir()  # verl deletes the weights of an old checkpoint, and leaves the folder
    (folder / "run" / "global_step_4" / "data.pt").touch()
    (folder / "run" / "latest_checkpointed_iteration.txt").write_text("7")
    manifest = {"format": MANIFEST_FORMAT, "model": {"model_hash": "0" * 64}, "data": {}, "settings": {}}
    (folder / "run" / "global_step_7" / MANIFEST).write_text(json.dumps(manifest))
    (folder / "run" / "metrics").mkdir()
    (folder / "run" / "metrics" / "1.jsonl").write_text(
        "".join(f'{{"step":{step},"data":{{"critic/rewards/mean":0.{step}}}}}\n' for step in range(1, 8))
    )
    write_rows(folder / "data" / "sql" / "bird_dev.parquet", 0, "bird", GOLD)
    write_rows(folder / "data" / "math" / "amc23.parquet", 100, "amc23", "7")
    write_rows(folder / "other.parquet", 200, "bird", GOLD)
    common = ["actor_rollout_ref.rollout.name=hf", f"evaluate.data_folder={folder / 'data'}"]
    both, tuned = "evaluate.benchmarks=[bird,amc23]", "evaluate.settings={amc23:{n:8,temperature:0.7}}"
    base, trained = f"base:{folder / 'base'}", f"{folder / 'run'}"
    stored = f"evaluate.base={folder / 'first'}"

    def run(output: str, models: str, *more: str) -> list[str]:
        return [*common, f"evaluate.output={folder / output}", f"evaluate.models={{{models}}}", *more]

    runs = {
        "first": run("first", f"{base},grpo:{trained}", both, tuned, "evaluate.paper=llama-math"),
        "stored": run("second", f"dph_js:{trained}", both, tuned, stored),
        "own": run("own", base, f"evaluate.splits={{2024:{folder / 'other.parquet'}}}", "evaluate.n=8",
                   "evaluate.greedy=False", "evaluate.base_again=False", "evaluate.styles_by=none",
                   "evaluate.groups=[difficulty]",
                   "data.max_prompt_length=64", "data.max_response_length=32",
                   "actor_rollout_ref.rollout.max_model_len=90"),
        "steps": run("steps", f"{base},js:{trained},js_low:{trained}/global_step_5", "evaluate.checkpoints=all",
                     f"evaluate.splits={{mine:{folder / 'other.parquet'}}}", "evaluate.n=8",
                     "evaluate.methods={js:{label:'JS, a fifth',family:JS,eta:0.2},js_low:{family:JS,eta:0}}"),
        "steps again": run("steps", f"{base},js:{trained}", "evaluate.checkpoints=[3,5]", "evaluate.n=8",
                           f"evaluate.splits={{mine:{folder / 'other.parquet'}}}", "evaluate.report=False"),
        **dict.fromkeys(("run as base", "run as base again"),
                        run("run_as_base", f"base:{trained}", "evaluate.checkpoints=[3]", "evaluate.report=False",
                            f"evaluate.splits={{mine:{folder / 'other.parquet'}}}", "evaluate.n=8")),
        "unknown database": run("no", base, "evaluate.benchmarks=[bird]", "evaluate.title='no such database'",
                                "data.max_response_length=9", "evaluate.greedy=False"),
        "under way": run("held", base, f"evaluate.splits={{mine:{folder / 'other.parquet'}}}"),
    }  # fmt: skip
    with sole_run(folder / "held", "-"), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        found = {name: run_program(words) for name, words in runs.items()}
    return folder, found


def test_benchmarks_are_sampled_as_in_the_paper(ended):
    folder, found = ended
    code, out, errors = found["first"]
    assert code == 0, errors
    # For SQL prompts of 16,000 tokens and answers of 4,096, and a model of 2,048 positions: one engine for both draws
    # of the base, one for grpo.
    assert out.count("engine: 16000 4096 2048\n") == 2
    drawn = [line.removeprefix("drawn: ") for line in out.splitlines() if line.startswith("drawn")]
    files = ["bird.jsonl", "bird.greedy.jsonl", "amc23.jsonl", "amc23.greedy.jsonl"]
    assert drawn == [
        *(f"base {file}" for file in files), "base_again bird.jsonl", "base_again amc23.jsonl",
        *(f"grpo {file}" for file in files),
    ]  # fmt: skip
    settings = {file: read_metadata(folder / "first" / "grpo" / file) for file in files}
    assert [(m.n, m.temperature, m.top_p, m.max_response_length) for m in settings.values()] == [
        (16, 1.0, 0.95, 4096), (1, 0.0, 0.95, 4096), (8, 0.7, 0.95, 2048), (1, 0.0, 0.95, 2048),
    ]  # fmt: skip
    assert settings["bird.jsonl"].model == str(folder / "run" / "global_step_7" / "actor" / "huggingface")
    drawn = ("base_again", "base", "grpo")
    again, base, grpo = (read_metadata(folder / "first" / name / "bird.jsonl") for name in drawn)
    assert again.model_hash == base.model_hash
    # With the base's random numbers a policy that has hardly changed would keep all that the base's first draw solved.
    assert len({again.seed, base.seed, grpo.seed}) == 3


def test_a_stored_base_is_not_sampled_again(ended):
    folder, found = ended
    code, out, errors = found["stored"]
    assert code == 0, errors
    assert {line.split()[1] for line in out.splitlines() if line.startswith("drawn")} == {"dph_js"}
    for name, evaluated in ("grpo", "first"), ("dph_js", "stored"):
        assert f"{name} ({folder / 'run'}) was not trained from base: model_hash 000000000000" in found[evaluated][1]
    first, second = (json.loads((folder / name / "report.json").read_text()) for name in ("first", "second"))
    assert second["base"] == first["base"] and second["base_again"] == first["base_again"]
    assert second["_labels"].keys() == {"base", "base_again", "dph_js"}
    # The specification makes the report again from where the files are.
    spec = json.loads((folder / "second" / "spec.json").read_text())
    assert spec["methods"]["base"]["splits"]["bird"]["samples"] == "../first/base/bird.jsonl"
    assert (folder / "second" / spec["questions"]["bird"][0]).is_file()


def test_splits_of_ones_own(ended):
    folder, found = ended
    code, out, errors = found["own"]
    assert code == 0, errors
    assert "engine: 64 32" in out
    cut = "2024 of base: actor_rollout_ref.rollout.max_model_len=90 is less than the longest row, data.max_prompt_len"
    assert cut in out
    summary = json.loads((folder / "own" / "report.json").read_text())["base"]["2024"]
    assert summary["n"] == 8 and summary["greedy"] is summary["styles"] is None
    assert [found["prompts"] for found in summary["groups"]["difficulty"].values()] == [3, 3]
    spec = json.loads((folder / "own" / "spec.json").read_text())
    assert list(spec["questions"]) == ["2024"] and spec["groups"] == ["difficulty"]


def test_checkpoints_of_runs_log_and_etas_reach_the_report(ended):
    folder, found = ended
    code, out, errors = found["steps"]
    assert code == 0, errors
    drawn = [line.split()[1] for line in out.splitlines() if line.startswith("drawn") and "greedy" not in line]
    # js_low is the checkpoint of step 5, and what came later is not its own.
    checkpoints = ["js/global_step_3", "js/global_step_5", "js_low/global_step_3"]
    assert drawn == ["base", "base_again", "js", "js_low", *checkpoints]
    models = [read_metadata(folder / "steps" / "js" / f"global_step_{step}" / "mine.jsonl").model for step in (3, 5)]
    merged = folder / "steps" / "js" / "global_step_3" / "huggingface_merged"
    assert models == [str(merged), str(folder / "run" / "global_step_5" / "actor" / "huggingface")]
    assert not list(folder.rglob("huggingface_merged*"))  # it was there for as long as it was sampled
    assert out.count("merged: ") == 2 and found["steps again"][0] == 0, found["steps again"][2]
    assert not any(word in found["steps again"][1] for word in ("drawn:", "engine:", "asked:", "waited for"))
    assert out.index("waited for") < out.index("merged:")
    spec = json.loads((folder / "steps" / "spec.json").read_text())["methods"]
    assert (spec["js"]["training_log"], spec["js"]["label"]) == ("../run/metrics", "JS, a fifth")
    assert (spec["js"]["last_step"], spec["js_low"]["last_step"]) == (7, 5)  # of the log's steps 1 to 7
    progress = json.loads((folder / "steps" / "report.json").read_text())["_progress"]
    assert [list(progress[name]["mine"]) for name in ("js", "js_low")] == [["0", "3", "5", "7"], ["0", "3", "5"]]


def test_checkpoints_of_a_base_are_not_drawn_again(ended):
    """They have the seed of other models, the base itself another one."""
    _, found = ended
    (code, out, errors), (code_again, out_again, errors_again) = found["run as base"], found["run as base again"]
    assert code == 0 and "drawn: base/global_step_3 mine.jsonl" in out, errors
    assert code_again == 0 and "drawn:" not in out_again, errors_again


def test_rejected_settings(ended, monkeypatch):
    folder, _ = ended
    monkeypatch.chdir(folder)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(evaluate, "check_scorer", lambda *_: pytest.fail("the settings were accepted"))
    words = [f"evaluate.data_folder={folder / 'data'}", f"evaluate.output={folder / 'no'}"]
    words.append(f"evaluate.models={{base:{folder / 'base'}}}")
    config = compose("evaluate", ["device=cpu", *words, "evaluate.benchmarks=[bird,amc23]"])
    OmegaConf.set_struct(config, False)
    for sentence, changes in rejected(folder).items():
        changed = config.copy()
        for key, value in changes.items():
            OmegaConf.update(changed, f"evaluate.{key}", value, merge=False)
        with pytest.raises(UserError) as error:
            evaluate.main(changed)
        assert sentence in str(error.value) and "\n" not in str(error.value)


def test_a_fault_is_one_sentence_and_exit_code_2_before_an_engine_starts(ended):
    folder, found = ended
    for name, sentence in {
        "unknown database": "row 0: the scorer has no database shop/shop.sqlite",
        "under way": f"A run is under way in {folder / 'held'} (process {os.getpid()} on ",
    }.items():
        code, out, errors = found[name]
        assert code == 2 and sentence in errors and "engine:" not in out, name
        assert errors.count("Error: ") == 1 and "Traceback" not in errors
    assert "data.max_response_length has no effect: it is read for evaluate.splits," in found["unknown database"][1]
    assert "of evaluate.splits alone" not in found["first"][1] + found["own"][1]
    assert not list((folder / "no").rglob("*.jsonl"))
