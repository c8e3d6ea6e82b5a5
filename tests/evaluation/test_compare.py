"""dph compare on made-up runs: what the report holds, and what cannot be compared."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rl import cli
from rl.data.training_run import MANIFEST_FORMAT
from rl.evaluation.spec import read_spec

LOG = {0: {"dph/val/bird/pass@1": 0.5}, 1: {"critic/rewards/mean": 0.1}, 2: {"critic/rewards/mean": 0.4}}


def compare(capsys, *folders: Path | str, out: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of dph compare."""
    try:
        code = cli.main(["compare", *map(str, folders), "--out", str(out)])
    except SystemExit as end:
        code = end.code
    return code, *capsys.readouterr()


def made_up_run(folder: Path, total_steps: int = 2) -> Path:
    """The folder of a run that is at step 2, as training leaves it."""
    (folder / "metrics").mkdir(parents=True)
    record = {"format": "dph-run/1", "step": 2, "total_steps": total_steps, "validations": {}}
    (folder / "dph_run.json").write_text(json.dumps(record))
    lines = [json.dumps({"step": step, "data": data}) + "\n" for step, data in LOG.items()]
    (folder / "metrics" / "20260101-000000.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture
def evaluated(made_up_report, tmp_path):
    """A finished run with an evaluation of its own."""

    def make(name: str, splits: tuple[str, ...], skill: float, base: str = "base", step: int = 2):
        run = made_up_run(tmp_path / name)
        folder = run / "evaluation"
        folder.mkdir()
        report = made_up_report(folder, splits=splits)
        report.method("base", model=base)
        report.method("base_again", model=base)
        model = f"{run}/global_step_{step}/actor/huggingface"
        report.method(run.name, skill=skill, model=model, training_log="../metrics")
        report.ask(difficulty=["simple", "moderate", "challenging"])
        report.content |= {"groups": ["difficulty"], "commands": [f"dph train {name}"]}
        report.write()
        return run

    return make


def trained_with(run: Path, seed: int = 1, step: int = 2, store: dict | None = None, **settings) -> None:
    """Give a run a checkpoint that says its seed and its method."""
    checkpoint = run / "global_step_2"
    checkpoint.mkdir(parents=True, exist_ok=True)
    settings = {"data": {"seed": seed}, "trainer": {"experiment_name": run.name}} | settings
    manifest = {"format": MANIFEST_FORMAT, "model": {}, "data": {}, "settings": settings, "store": store}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    (run / "latest_checkpointed_iteration.txt").write_text(str(step))


def test_evaluations_become_one_report(evaluated, tmp_path, capsys):
    folders = [evaluated("js", ("in_domain",), 2.0), evaluated("grpo", ("in_domain",), 1.0)]
    out = tmp_path / "out"
    code, said, err = compare(capsys, *folders, out=out)
    written = ("report.json", "report.html", "answers.svg", "answers_narrow.svg", "pareto.svg", "pareto_narrow.svg")
    assert (code, err) == (0, "") and said.split() == [str(out / name) for name in written]
    report = json.loads((out / "report.json").read_text())
    assert [name for name in report if not name.startswith("_")] == ["base", "base_again", "js", "grpo"]
    assert {*report["grpo"]} == {"in_domain"} and report["_labels"]["grpo"] == "GRPO"
    # Questions, groups and commands come along.
    assert list(report["grpo"]["in_domain"]["groups"]["difficulty"]) == ["simple", "moderate", "challenging"]
    spec = json.loads((out / "spec.json").read_text())
    assert spec["questions"] == {"in_domain": ["../js/evaluation/in_domain.parquet"]}
    page = (out / "report.html").read_text()
    assert "0 of in_domain?" in page and "dph train js" in page and "dph train grpo" in page
    assert "Mean reward" in page
    # The specification is one that dph report takes.
    assert cli.main(["report", "--spec", str(out / "spec.json"), "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "report.json").read_bytes() == (out / "report.json").read_bytes()
    # Questions that were prepared again are left out.
    data = folders[0] / "evaluation" / "in_domain.parquet"
    pq.write_table(pq.read_table(data).slice(0), data, compression="none")
    assert compare(capsys, *folders, out=tmp_path / "changed")[0] == 0
    assert "questions" not in json.loads((tmp_path / "changed" / "spec.json").read_text())
    sentence = "Without questions, whose data files are gone or changed: in_domain."
    assert sentence in (tmp_path / "changed" / "report.html").read_text()


# {run: (settings of its actor, what its store says of itself, role)}
JS = {"sft_loss_mode": "js_low_var", "sft_loss_coeff": 0.2}
METHODS = {
    "eta_0": (JS | {"sft_loss_coeff": 0}, {"responses": "a"}, None),
    "of_own_samples": ({"sft_loss_mode": "reverse_kl", "policy_loss_coeff": 0}, None, None),
    "of_gold": ({"sft_loss_mode": "forward", "sft_loss_coeff": 1.0}, {"responses": "b"}, "gold"),
    "no_rl": ({"sft_loss_mode": "forward", "sft_loss_coeff": 1.0, "policy_loss_coeff": 0}, {}, "control"),
    "mine": (JS, {"samples": "a"}, None),
}


def test_the_role_of_a_run_follows_from_what_it_recorded(evaluated, tmp_path, capsys):
    """In the report of its own evaluation as in a comparison."""
    folders = []
    for name, (actor, store, _) in METHODS.items():
        folders.append(evaluated(name, ("in_domain",), 1.0))
        trained_with(folders[-1], store=store, actor_rollout_ref={"actor": actor})
    assert compare(capsys, *folders, out=tmp_path / "out")[0] == 0
    compared = read_spec(tmp_path / "out" / "spec.json")
    for (name, (*_, role)), folder in zip(METHODS.items(), folders, strict=True):
        for spec in (compared, read_spec(folder / "evaluation" / "spec.json")):
            assert spec.methods[name].role == role, name


def test_seeds_of_methods_are_compared_as_the_study_does(evaluated, tmp_path, capsys, monkeypatch):
    """grpo keeps its skill over seeds, js is better and differs more; the others are compared with the first."""
    monkeypatch.chdir(tmp_path)
    splits = ("in_domain", "out_of_domain")
    for name, skill in (("grpo_1", 1.0), ("grpo_2", 1.0), ("js_1", 2.0), ("js_2", 4.0)):
        evaluated(name, splits, skill)
    words = ["grpo=grpo_1,grpo_2", "js=js_1", "js=js_2"]  # as a shell expands js=js_{1,2}
    assert cli.main(["compare", "--seeds", *words, "--out", "out"]) == 0
    said, content = capsys.readouterr().out, json.loads(Path("out/seeds.json").read_text())
    assert content["labels"] == {"grpo": "GRPO", "js": "js"} and list(content["differences"]) == ["js - grpo"]
    for seed in (1, 2):
        report = json.loads(Path(f"out/seed_{seed}/report.json").read_text())
        assert [name for name in report if not name.startswith("_")] == ["base", "base_again", "grpo", "js"]
        for name in ("grpo", "js"):
            found = content["methods"][name]["Pass@1, out of domain"]["values"][seed - 1]
            assert found == pytest.approx(report[name]["out_of_domain"]["pass@k"]["1"][0])
    difference = content["differences"]["js - grpo"]["Pass@1"]
    assert len(difference["values"]) == 2 and difference["p"] <= difference["p_holm"] <= 1
    assert said.startswith("Mean over seeds 1, 2 ± ") and "| js minus GRPO |" in said
    assert "out/pareto.svg\nout/pareto_narrow.svg\n" in said
    # Runs whose checkpoints say their seeds are paired by them. A second draw that one seed's base lacks is left out.
    spec = Path("js_2/evaluation/spec.json")
    content = json.loads(spec.read_text())
    del content["methods"]["base_again"]
    spec.write_text(json.dumps(content))
    for name, seed in (("grpo_1", 7), ("grpo_2", 8), ("js_1", 7), ("js_2", 8)):
        trained_with(Path(name), seed)
    assert cli.main(["compare", "--seeds", *words[1:], words[0], "--out", "out"]) == 0
    assert capsys.readouterr().out.startswith("Mean over seeds 7, 8 ± ") and Path("out/seed_7/report.json").is_file()
    content = json.loads(Path("out/seeds.json").read_text())
    assert list(content["differences"]) == ["grpo - js"] and list(content["bases"]) == ["base"]
    # A mean over seeds is of one evaluation: same data, same sampling.
    for run in ("grpo_2", "js_2"):
        for path in Path(run, "evaluation").glob("*.0.meta.json"):
            path.write_text(json.dumps(json.loads(path.read_text()) | {"temperature": 0.6}))
    assert "base.0.jsonl has temperature 0.6, not 1.0 as" in compare(capsys, "--seeds", *words, out=Path("out"))[2]


@pytest.mark.parametrize(
    ("seeds", "sentence"),
    [
        ((1, 2, 2, 1), "their seeds differ (grpo: 1, 2; js: 2, 1): name them in the same order of seeds."),
        ((1, 1, 1, 1), "the runs have the seeds 1, 1: name one of each seed."),
    ],
)
def test_runs_whose_seeds_do_not_pair_are_rejected(seeds, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, name in zip(seeds, "abcd", strict=True):
        trained_with(Path(name), seed)
    # A run can be named by the folder of its evaluation.
    for grpo in ("a,b", "a/evaluation,b/evaluation"):
        assert sentence in compare(capsys, "--seeds", f"grpo={grpo}", "js=c,d", out=tmp_path / "out")[2]


def test_runs_of_a_method_differ_in_their_seeds_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, name, step, eta, offload in ((1, "a", 2, 0, True), (2, "b", 5, 0.5, False)):
        # Neither the machine's settings, nor what a run does not say, nor the form of nothing counts.
        actor = {"sft_loss_coeff": eta, "fsdp_config": {"offload": offload}, "more": None if offload else {}}
        trainer = {"scorer_verdict_sha256": "" if offload else "ab"}
        algorithm = {"success_cap": None if offload else 0.6, "filter": {"enable": offload}}
        settings = {"actor_rollout_ref": {"actor": actor}, "trainer": trainer, "algorithm": algorithm}
        trained_with(Path(name), seed, step, **settings)
    differ = (
        "actor_rollout_ref.actor.sft_loss_coeff 0 and 0.5, algorithm.filter.enable True and False, "
        "algorithm.success_cap None and 0.6, the last step 2 and 5"
    )
    with pytest.raises(SystemExit) as end:
        cli.main(["compare", "--seeds", "js=a,b", "--out", "out"])
    assert end.value.code == 2
    said = f"--seeds js: {tmp_path / 'a'} and {tmp_path / 'b'} were trained differently ({differ}): a"
    assert said in capsys.readouterr().err


def test_what_cannot_be_compared_is_one_sentence(evaluated, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def rejected(*words: Path | str) -> str:
        code, said, err = compare(capsys, *words, out=tmp_path / "out")
        assert code == 2 and not said and err.startswith("Error: ") and len(err.splitlines()) == 1, err
        assert not (tmp_path / "out" / "report.json").exists()
        return err

    for words, sentence in (
        (["--seeds", "grpo=a,b", "js=c"], "have different numbers of runs (grpo 2, js 1)"),
        (["--seeds", "grpo=a", "js=a"], "A run is named twice"),
        ([], "Name the runs to compare, or else"),
    ):
        assert sentence in rejected(*words)
    js = evaluated("js", ("in_domain",), 1.0)
    bare, running = made_up_run(tmp_path / "bare"), made_up_run(tmp_path / "running", total_steps=9)
    assert f"nor a run with an evaluation: there is no {bare}/evaluation/spec.json" in rejected(js, bare)
    assert "running has not ended (step 2 of 9): let it finish" in rejected(js, running)
    for words in ([js], ["--seeds", f"js={js}"]):
        code, _, err = compare(capsys, *words, out=js / "evaluation")
        assert code == 2 and f"--out {js / 'evaluation'} holds one of the evaluations that are compared" in err
    several = tmp_path / "several"
    assert compare(capsys, js, evaluated("other", ("in_domain",), 1.0), out=several)[0] == 0
    assert f"--seeds: {several} holds an evaluation of 2 models" in rejected("--seeds", f"js={several}")
    older = evaluated("older", ("in_domain",), 1.0, step=1)
    said = f"{older} was evaluated at step 1 and is at step 2: evaluate its newest checkpoint, or"
    assert said in rejected(js, older)
    folders = f"js={js / 'evaluation'},{older / 'evaluation'}"
    assert "the runs were evaluated at different steps (1, 2)" in rejected("--seeds", folders)
    assert "has model_hash " in rejected(js, evaluated("grpo", ("in_domain",), 1.0, base="other"))
    far = evaluated("far", ("far",), 1.0)
    assert f"{far} was evaluated with splits ['far'] and the first run with ['in_domain']" in rejected(js, far)
