"""dph compare on made-up runs: what the report holds, and what cannot be compared.

tests/loggers has it on real runs.
"""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rl import cli
from rl.data.training_run import MANIFEST_FORMAT

LOG = {0: {"dph/val/bird/pass@1": 0.5}, 1: {"critic/rewards/mean": 0.1}, 2: {"critic/rewards/mean": 0.4}}


def compare(capsys, *folders: Path | str, out: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of dph compare."""
    try:
        code = cli.main(["compare", *map(str, folders), "--out", str(out)])
    except SystemExit as end:
        code = end.code
    return code, *capsys.readouterr()


def ended(made_up_run, name: str, rehearses: bool = False):
    """A finished run; one that rehearses nothing logs eta 0, as the control of `dph train js_kl NAME 0` does."""
    eta = 0.2 if rehearses else 0.0
    steps = {step: data | ({"dph/coefficient": eta} if step else {}) for step, data in LOG.items()}
    return made_up_run(name).record(2, 2).log(steps)


@pytest.fixture
def evaluated(made_up_run, made_up_report):
    """Two finished runs with evaluations of their own; in_domain is the split that both have."""

    def make(name: str, splits: tuple[str, ...], skill: float, base: str = "base", step: int = 2):
        run = ended(made_up_run, name, rehearses="js" in name)
        folder = run.folder / "evaluation"
        folder.mkdir()
        report = made_up_report(folder, splits=splits)
        report.method("base", model=base)
        report.method("base_again", model=base)
        report.method(run.folder.name, skill=skill, model=f"{run.folder}/global_step_{step}/actor/huggingface")
        report.ask(difficulty=["simple", "moderate", "challenging"])
        report.content |= {"groups": ["difficulty"], "commands": [f"dph train {name}"]}
        report.write()
        return run.folder

    return make


def test_evaluations_become_one_report(evaluated, tmp_path, capsys):
    folders = [evaluated("js", ("in_domain", "out_of_domain"), 2.0), evaluated("grpo", ("in_domain",), 1.0)]
    out = tmp_path / "out"
    code, said, err = compare(capsys, *folders, out=out)
    written = ("report.json", "report.html", "answers.svg", "pareto.svg", "pareto_narrow.svg", "preview.png")
    assert (code, err) == (0, "") and said.split() == [str(out / name) for name in written]
    report = json.loads((out / "report.json").read_text())
    assert [name for name in report if not name.startswith("_")] == ["base", "base_again", "dph_js", "grpo"]
    assert {*report["grpo"]} == {"in_domain"} and report["_labels"]["dph_js"] == "js"
    alone = tmp_path / "alone"
    assert cli.main(["report", "--spec", str(folders[0] / "evaluation" / "spec.json"), "--out", str(alone)]) == 0
    assert report["dph_js"]["in_domain"] == json.loads((alone / "report.json").read_text())["js"]["in_domain"]
    # Questions, groups and commands come along.
    assert list(report["grpo"]["in_domain"]["groups"]["difficulty"]) == ["simple", "moderate", "challenging"]
    spec = json.loads((out / "spec.json").read_text())
    assert spec["questions"] == {"in_domain": ["../js/evaluation/in_domain.parquet"]}
    assert ">js<" in (out / "pareto.svg").read_text()
    # Questions that were prepared again are left out.
    data = folders[0] / "evaluation" / "in_domain.parquet"
    before = data.read_bytes()
    pq.write_table(pq.read_table(data).slice(0), data, compression="none")
    assert compare(capsys, *folders, out=tmp_path / "changed")[0] == 0
    assert "questions" not in json.loads((tmp_path / "changed" / "spec.json").read_text())
    sentence = "Without questions and groups, because the data files are gone or changed: in_domain."
    assert sentence in (tmp_path / "changed" / "report.html").read_text()
    data.write_bytes(before)
    page = (out / "report.html").read_text()
    assert "0 of in_domain?" in page and "dph train js" in page and "dph train grpo" in page
    assert "Left out, because not all runs were evaluated on it: out_of_domain." in page and "Mean reward" in page
    # the specification is one that dph report takes
    assert cli.main(["report", "--spec", str(out / "spec.json"), "--out", str(out)]) == 0


def test_two_evaluation_folders_with_the_same_methods(evaluated, tmp_path, capsys):
    folders = [evaluated(name, ("in_domain",), 1.0) for name in ("a/js", "b/js")]
    code, _, err = compare(capsys, *(folder / "evaluation" for folder in folders), out=tmp_path / "out")
    assert (code, err) == (0, "")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert {name for name in report if not name.startswith("_")} == {"base", "base_again", "js", "js_b_js"}
    assert report["_labels"]["js_b_js"] == "js (b_js)"


def test_runs_whose_names_in_the_report_would_be_equal(evaluated, tmp_path, capsys):
    """A run that rehearses gets the prefix dph, and a run may be called as a method of an evaluation."""
    evaluated("grpo", ("in_domain",), 1.0).rename(tmp_path / "mine")
    of_runs = [evaluated(name, ("in_domain",), 1.0) for name in ("js", "dph_js")]
    with_evaluation = [tmp_path / "mine" / "evaluation", evaluated("grpo", ("in_domain",), 2.0)]
    # Another name, and the same label.
    labelled = evaluated("dapo", ("in_domain",), 2.0) / "evaluation" / "spec.json"
    labelled.write_text(labelled.read_text().replace('"dapo": {', '"dapo": {"label": "GRPO", '))
    of_label = [tmp_path / "mine" / "evaluation", labelled.parent]
    for number, folders in enumerate((of_runs, of_runs[::-1], with_evaluation, with_evaluation[::-1], of_label)):
        out = tmp_path / f"out_{number}"
        assert compare(capsys, *folders, out=out)[0] == 0
        labels = json.loads((out / "report.json").read_text())["_labels"]
        assert len(labels) == len({*labels.values()}) == 4, labels


def test_a_name_that_the_comparison_makes_up_is_free(evaluated, tmp_path, capsys):
    """A method that had the name was not shown."""
    first, second = (tmp_path / name for name in ("first", "more"))
    evaluated("dph_js", ("in_domain",), 1.0).joinpath("evaluation").rename(first)
    shutil.copytree(first, second)
    content = json.loads((first / "spec.json").read_text())
    named = {"dph_js_more": content["methods"]["dph_js"] | {"label": "DPH-JS (more)"}}
    (first / "spec.json").write_text(json.dumps(content | {"methods": content["methods"] | named}))
    assert compare(capsys, first, second, out=tmp_path / "out")[0] == 0
    labels = json.loads((tmp_path / "out" / "report.json").read_text())["_labels"]
    expected = {"dph_js": "DPH-JS", "dph_js_more": "DPH-JS (more)", "dph_js_more_2": "DPH-JS (more) 2"}
    assert {name: label for name, label in labels.items() if not name.startswith("base")} == expected


def test_seeds_of_methods_whose_names_would_be_equal(evaluated, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, skill in (("js_1", 1.0), ("js_2", 1.0), ("dph_js_1", 2.0), ("dph_js_2", 3.0)):
        evaluated(name, ("in_domain",), skill)
    words = ["js=js_1,js_2", "dph_js=dph_js_1,dph_js_2"]
    assert cli.main(["compare", "--seeds", *words, "--out", "out"]) == 0
    content = json.loads(Path("out/seeds.json").read_text())
    assert len(content["methods"]) == 2 and len(content["differences"]) == 1
    assert "| DPH-JS minus js |" in capsys.readouterr().out


def test_seeds_of_methods_are_compared_as_the_study_does(evaluated, tmp_path, capsys, monkeypatch):
    """grpo keeps its skill over seeds, js is better and differs more; the first method is the baseline."""
    monkeypatch.chdir(tmp_path)
    splits = ("in_domain", "out_of_domain")
    for name, skill in (("grpo_1", 1.0), ("grpo_2", 1.0), ("js_1", 2.0), ("js_2", 4.0)):
        evaluated(name, splits, skill)
    words = ["grpo=grpo_1,grpo_2", "js=js_1", "js=js_2"]  # as a shell expands js=js_{1,2}
    assert cli.main(["compare", "--seeds", *words, "--out", "out"]) == 0
    said, content = capsys.readouterr().out, json.loads(Path("out/seeds.json").read_text())
    assert content["labels"] == {"grpo": "GRPO", "dph_js": "js"} and list(content["differences"]) == ["dph_js - grpo"]
    for seed in (1, 2):
        report = json.loads(Path(f"out/seed_{seed}/report.json").read_text())
        assert [name for name in report if not name.startswith("_")] == ["base", "base_again", "grpo", "dph_js"]
        for name in ("grpo", "dph_js"):
            found = content["methods"][name]["Pass@1, out of domain"]["values"][seed - 1]
            assert found == pytest.approx(report[name]["out_of_domain"]["pass@k"]["1"][0])
        assert Path(f"out/seed_{seed}/report.html").is_file()
    difference = content["differences"]["dph_js - grpo"]["Pass@1"]
    assert len(difference["values"]) == 2 and difference["p"] <= difference["p_holm"] <= 1
    assert said.startswith("Mean over seeds 1, 2 ± ") and "| js minus GRPO |" in said
    assert "out/pareto.svg\nout/pareto_narrow.svg\n" in said
    sentence = "In domain, 2 of 2 methods have more right answers and more solved questions than the base: "
    assert sentence in said and Path("out/seed_1/pareto.svg").is_file()
    # The second draw of the base is the same in both seeds' reports, and methods can be named as baselines.
    assert cli.main(["compare", "--seeds", *words, "--baselines", "js", "--out", "out"]) == 0
    assert list(json.loads(Path("out/seeds.json").read_text())["differences"]) == ["grpo - dph_js"]
    # One method has no trade-off to show: the picture of the two goes.
    assert cli.main(["compare", "--seeds", "js=js_1,js_2", "--out", "out"]) == 0
    assert not [*Path("out").glob("pareto*.svg")]
    # Runs whose checkpoints say their seeds are paired by them.
    for name, seed in (("grpo_1", 7), ("grpo_2", 8), ("js_1", 7), ("js_2", 8)):
        trained_with(seed, Path(name))
    capsys.readouterr()
    assert cli.main(["compare", "--seeds", *words, "--out", "paired"]) == 0
    assert capsys.readouterr().out.startswith("Mean over seeds 7, 8 ± ") and Path("paired/seed_7/report.json").is_file()


def trained_with(seed: int, run: Path, step: int = 2, **settings) -> None:
    """Give a run a checkpoint that says its seed."""
    checkpoint = run / "global_step_2"
    checkpoint.mkdir(parents=True, exist_ok=True)
    settings = {"data": {"seed": seed}, "trainer": {"experiment_name": run.name}} | settings
    manifest = {"format": MANIFEST_FORMAT, "model": {}, "data": {}, "settings": settings}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    (run / "latest_checkpointed_iteration.txt").write_text(str(step))


@pytest.mark.parametrize(
    ("seeds", "sentence"),
    [
        ((1, 2, 2, 1), "their seeds differ (grpo: 1, 2; js: 2, 1): name them in the same order of seeds."),
        ((1, 1, 1, 1), "the runs of grpo have the seeds 1, 1: name one of each seed."),
    ],
)
def test_runs_whose_seeds_do_not_pair_are_rejected(seeds, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, name in zip(seeds, "abcd", strict=True):
        trained_with(seed, Path(name))
    # A run can be named by the folder of its evaluation.
    monkeypatch.setenv("HOME", str(tmp_path))
    for grpo in ("a,b", "a/evaluation,b/evaluation", "~/a,~/b"):
        with pytest.raises(SystemExit) as end:
            cli.main(["compare", "--seeds", f"grpo={grpo}", "js=c,d", "--out", "out"])
        assert end.value.code == 2 and sentence in capsys.readouterr().err and not Path("out").exists()


def test_runs_of_a_method_differ_in_their_seeds_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, name, step, eta, offload in ((1, "a", 2, 0, True), (2, "b", 5, 0.5, False)):
        # Neither the machine's settings, nor what a run does not say, nor the form of nothing counts.
        actor = {"sft_loss_coeff": eta, "fsdp_config": {"offload": offload}, "more": None if offload else {}}
        trainer = {"scorer_verdict_sha256": "" if offload else "ab"}
        algorithm = {"success_cap": None if offload else 0.6, "filter": {"enable": offload}}
        settings = {"actor_rollout_ref": {"actor": actor}, "trainer": trainer, "algorithm": algorithm}
        trained_with(seed, Path(name), step, **settings)
    differ = (
        "actor_rollout_ref.actor.sft_loss_coeff 0 and 0.5, algorithm.filter.enable True and False, "
        "algorithm.success_cap None and 0.6, the last step 2 and 5"
    )
    for a, b in (("a", "b"), ("a/evaluation", "b/evaluation")):
        with pytest.raises(SystemExit) as end:
            cli.main(["compare", "--seeds", f"js={a},{b}", "--out", "out"])
        said = capsys.readouterr().err
        assert end.value.code == 2 and f"--seeds js: {a} and {b} were trained differently ({differ}): a" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--seeds", "grpo=a,b", "js=c"], "have different numbers of runs (grpo 2, js 1)"),
        (["--seeds", "grpo"], "--seeds grpo: give METHOD=RUN,RUN"),
        (["--seeds", "grpo=a", "GRPO=b"], "--seeds: two methods are called GRPO in the tables: give one of them"),
        (["--seeds", "grpo=a,"], "--seeds grpo=a,: give METHOD=RUN,RUN"),
        (["--seeds", "grpo=a", "js=a"], "a run is named twice"),
        (["--seeds", "grpo=a", "--baselines", "dapo"], "--baselines dapo: dapo is not one of grpo"),
        (["a", "--baselines", "a"], "--baselines is for --seeds"),
        (["a", "--seeds", "grpo=a"], "Name the runs to compare, or else"),
        ([], "Name the runs to compare, or else"),
    ],
)
def test_wrong_words_are_one_sentence(words, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        cli.main(["compare", *words, "--out", "out"])
    assert end.value.code == 2 and sentence in capsys.readouterr().err and not Path("out").exists()


def test_what_cannot_be_compared_is_one_sentence(evaluated, made_up_run, tmp_path, capsys, monkeypatch):
    def rejected(*folders: Path) -> str:
        code, said, err = compare(capsys, *folders, out=tmp_path / "out")
        assert code == 2 and not said and err.startswith("Error: ") and len(err.splitlines()) == 1, err
        assert not (tmp_path / "out" / "report.json").exists()
        return err

    js = evaluated("js", ("in_domain",), 1.0)
    assert "There is no run" in rejected(js, tmp_path / "none")
    assert "is named twice" in rejected(js, js)
    (tmp_path / "eval").mkdir()
    assert "eval is neither a run nor an output folder of `dph evaluate` (it has no spec.json)" in rejected(
        js, tmp_path / "eval"
    )
    for words in ([js], ["--seeds", f"js={js}"]):
        code, _, err = compare(capsys, *words, out=js / "evaluation")
        assert code == 2 and f"--out {js / 'evaluation'} holds one of the evaluations that are compared" in err
    several = tmp_path / "several"
    assert compare(capsys, js, evaluated("other", ("in_domain",), 1.0), out=several)[0] == 0
    code, _, err = compare(capsys, "--seeds", f"js={several}", out=tmp_path / "out")
    assert code == 2 and f"--seeds: {several} holds an evaluation of 2 trained models" in err
    assert "running has not ended (step 2 of 9): let it finish" in rejected(
        js, made_up_run("running").record(2, 9).log(LOG).folder
    )
    plain = ended(made_up_run, "plain").folder
    assert f"{plain} has no samples to compare: evaluate it into {plain / 'evaluation'}" in rejected(js, plain)
    older = evaluated("older", ("in_domain",), 1.0, step=1)
    assert f"{older} was evaluated at step 1 and is at step 2: evaluate its newest checkpoint, or" in rejected(
        js, older
    )
    assert compare(capsys, js, older / "evaluation", out=tmp_path / "with_older")[0] == 0
    seeds = tmp_path / "seeds"  # such as the best checkpoint of each run
    folders = f"js={js / 'evaluation'},{older / 'evaluation'}"
    code, _, err = compare(capsys, "--seeds", folders, out=seeds)
    said = f"The runs of js were evaluated at different steps: {js / 'evaluation'} at step 2, {older / 'evaluation'} at"
    assert code == 0 and said in err and said in json.loads((seeds / "spec_seed_1.json").read_text())["caveats"][-1]
    # One of an evaluation's models is an earlier step of the run.
    content = json.loads((older / "evaluation" / "spec.json").read_text())
    content["methods"]["another"] = json.loads((js / "evaluation" / "spec.json").read_text())["methods"]["js"]
    for split in content["methods"]["another"]["splits"].values():
        for key in split:
            split[key] = str(js / "evaluation" / split[key])
    (older / "evaluation" / "spec.json").write_text(json.dumps(content))
    monkeypatch.chdir(older.parent)
    for drawn in (older / "evaluation").glob("*older*.meta.json"):  # as dph evaluate got the model's path
        metadata = json.loads(drawn.read_text())
        drawn.write_text(json.dumps(metadata | {"model": str(Path(metadata["model"]).relative_to(older.parent))}))
    assert f"{older} was evaluated at step 1 and is at step 2" in rejected(js, older)
    assert "against another base model" in rejected(js, evaluated("grpo", ("in_domain",), 1.0, base="other"))
    assert "no split in common (in_domain; far)" in rejected(js, evaluated("far", ("far",), 1.0))
