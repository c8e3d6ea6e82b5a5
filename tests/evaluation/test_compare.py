"""dph compare on made-up runs: what the report holds, and what cannot be compared.

tests/loggers has it on real runs.
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl import cli

LOG = {0: {"dph/val/bird/pass@1": 0.5}, 1: {"critic/rewards/mean": 0.1}, 2: {"critic/rewards/mean": 0.4}}
MANIFEST = {
    "format": "dph-manifest/1",
    "model": {"path": "/models/base", "model_hash": "base", "tokenizer_hash": "tokenizer"},
    "data": {"val_files": {"/data/test.parquet": "sha"}},
    "settings": {
        "trainer": {"validation_data_dir": None},
        "data": {"max_response_length": 8},
        "actor_rollout_ref": {
            "rollout": {
                "seed": 1,
                "val_kwargs": {"do_sample": True, "temperature": 1.0, "top_p": 0.9, "top_k": -1, "n": 2},
            }
        },
    },
}
JOIN, IN = "SELECT a.x FROM a JOIN b ON a.id = b.id", "SELECT x FROM a WHERE id IN (SELECT id FROM b)"


def compare(capsys, *folders: Path, out: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of dph compare."""
    try:
        code = cli.main(["compare", *map(str, folders), "--out", str(out)])
    except SystemExit as end:
        code = end.code
    return code, *capsys.readouterr()


def ended(made_up_run, name: str, rehearses: bool = False):
    steps = {step: data | ({"dph/coefficient": 0.2} if rehearses and step else {}) for step, data in LOG.items()}
    return made_up_run(name).record(2, 2).log(steps)


@pytest.fixture
def evaluated(made_up_run, made_up_report):
    """Two finished runs with evaluations of their own; in_domain is the split that both have."""

    def make(name: str, splits: tuple[str, ...], skill: float, base: str = "base"):
        run = ended(made_up_run, name, rehearses=name.startswith("js"))
        folder = run.folder / "evaluation"
        folder.mkdir()
        report = made_up_report(folder, splits=splits)
        report.method("base", model=base)
        report.method("base_again", model=base)
        report.method(run.folder.name, skill=skill)
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
    assert "out/seeds.svg\nout/pareto.svg\nout/pareto_narrow.svg\n" in said
    sentence = "In domain, 2 of 2 methods have more right answers and more solved questions than the base: "
    assert sentence in said and Path("out/seed_1/pareto.svg").is_file()
    # The second draw of the base is the same in both seeds' reports, and methods can be named as baselines.
    assert cli.main(["compare", "--seeds", *words, "--baselines", "js", "--out", "out"]) == 0
    assert list(json.loads(Path("out/seeds.json").read_text())["differences"]) == ["grpo - dph_js"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--seeds", "grpo=a,b", "js=c"], "have different numbers of runs (grpo 2, js 1)"),
        (["--seeds", "grpo"], "--seeds grpo: give METHOD=RUN,RUN"),
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


@pytest.fixture
def validated(made_up_run):
    """A finished run with dumps of its validations: prompts 1 and 2, two samples each."""

    def make(name: str, dumps: dict[int, list[tuple[int, int, str]]], seed: int = 1, base: str = "base"):
        run = ended(made_up_run, name, rehearses=name == "js")
        manifest = json.loads(json.dumps(MANIFEST))
        manifest["settings"]["actor_rollout_ref"]["rollout"]["seed"] = seed
        manifest["model"]["model_hash"] = base
        (run.folder / "global_step_2").mkdir()
        (run.folder / "global_step_2" / "manifest.json").write_text(json.dumps(manifest))
        (run.folder / "validation").mkdir()
        for step, rows in dumps.items():
            lines = [
                {
                    "id": id,
                    "data_source": "bird",
                    "response_ids": [5] * 4,
                    "input": f"q{id}",
                    "output": sql,
                    "pred": sql,
                }
                | {"score": float(acc), "acc": acc, "outcome": "match" if acc else "mismatch", "uid": f"u{id}_{n}_0"}
                for n, (id, acc, sql) in enumerate(rows)
            ]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (run.folder / "validation" / f"{step}.jsonl").write_text(text)
        return run.folder

    return make


BEFORE = [(1, 1, JOIN), (1, 0, IN), (2, 0, JOIN), (2, 0, IN)]
BETWEEN = [(1, 1, JOIN), (1, 1, IN), (2, 0, JOIN), (2, 0, IN)]
AFTER = [(1, 1, JOIN), (1, 1, IN), (2, 1, JOIN), (2, 0, IN)]


def test_validations_become_one_report(validated, tmp_path, capsys, monkeypatch):
    asked = [
        {"id": id, "prompt": [{"role": "user", "content": f"Which {id}?"}], "reward_model": {"ground_truth": "x"}}
        | {"extra_info": {"difficulty": level}}
        for id, level in ((1, "simple"), (2, "moderate"))
    ]
    pq.write_table(pa.Table.from_pylist(asked), tmp_path / "test.parquet")
    monkeypatch.setitem(MANIFEST["data"], "val_files", {str(tmp_path / "test.parquet"): "sha"})
    runs = [validated("grpo", {1: BETWEEN, 2: AFTER}, seed=2), validated("js", {0: BEFORE, 2: BETWEEN})]
    out = tmp_path / "out"
    code, _, err = compare(capsys, *runs, out=out)
    assert (code, err) == (0, "")
    report = json.loads((out / "report.json").read_text())
    assert [name for name in report if not name.startswith("_")] == ["base", "grpo", "dph_js"]
    values = {name: {k: of["bird"]["pass@k"][k][0] for k in "12"} for name, of in report.items() if name[0] != "_"}
    # per prompt 1 and 0 of 2; 2 and 1 of 2; 2 and 0 of 2
    assert values == {"base": {"1": 0.25, "2": 0.5}, "grpo": {"1": 0.75, "2": 1.0}, "dph_js": {"1": 0.5, "2": 0.5}}
    # n = 2: solved in the first sample, so that the base has another one to show its noise floor
    assert report["base"]["bird"]["keep_rate"][0] == 0 and report["grpo"]["bird"]["keep_rate"][0] == 1
    assert report["grpo"]["bird"]["response_tokens"][0] == 4 and report["grpo"]["bird"]["styles"][0] == 1.5
    assert list(report["grpo"]["bird"]["groups"]["difficulty"]) == ["simple", "moderate"]
    assert "Which 1?" in (out / "report.html").read_text()
    spec = json.loads((out / "spec.json").read_text())
    assert [*spec["methods"]["grpo"]["checkpoints"]] == ["1", "2"]
    assert "the structure of the SQL" in report["_definitions"]["styles"]
    assert compare(capsys, *runs, out=out)[0] == 0  # again, into the same folder
    # One seed, without greedy responses: no interval, and columns only of what all runs have.
    assert cli.main(["compare", "--seeds", f"grpo={runs[0]}", f"js={runs[1]}", "--out", str(out)]) == 0
    content = json.loads((out / "seeds.json").read_text())
    found = {
        name: {column: of["mean"] for column, of in columns.items()} for name, columns in content["methods"].items()
    }
    assert found["grpo"]["Pass@1"] == 0.75 and found["dph_js"]["Pass@1"] == 0.5 and "greedy" not in found["grpo"]
    assert (out / "seeds.md").read_text().startswith("Seed 1 alone.")


def test_a_second_draw_of_the_base_is_one_with_another_seed(validated, tmp_path, capsys):
    runs = [validated("a", {0: BEFORE, 2: AFTER}), validated("b", {0: BETWEEN, 2: AFTER}, seed=2)]
    runs += [validated("c", {0: AFTER, 2: AFTER})]
    assert compare(capsys, *runs, out=tmp_path / "out")[0] == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["base"]["bird"]["pass@k"]["1"][0] == 0.25 and report["base_again"]["bird"]["pass@k"]["1"][0] == 0.5


def test_prompts_with_failed_rollouts_are_left_out(validated, tmp_path, capsys):
    runs = [validated("a", {0: BEFORE, 2: AFTER[:3]}), validated("b", {2: AFTER})]
    assert compare(capsys, *runs, out=tmp_path / "out")[0] == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["b"]["bird"]["prompts"] == 1
    assert "1 prompt left out" in (tmp_path / "out" / "report.html").read_text()


def test_what_cannot_be_compared_is_one_sentence(evaluated, validated, made_up_run, tmp_path, capsys):
    def rejected(*folders: Path) -> str:
        code, said, err = compare(capsys, *folders, out=tmp_path / "out")
        assert code == 2 and not said and err.startswith("Error: ") and len(err.splitlines()) == 1, err
        assert not (tmp_path / "out" / "report.json").exists()
        return err

    js = evaluated("js", ("in_domain",), 1.0)
    assert "There is no run" in rejected(js, tmp_path / "none")
    assert "is named twice" in rejected(js, js)
    assert "running has not ended (step 2 of 9): let it finish" in rejected(
        js, made_up_run("running").record(2, 9).log(LOG).folder
    )
    plain = ended(made_up_run, "plain").folder
    assert f"{plain} has no samples to compare: evaluate it into {plain / 'evaluation'}" in rejected(js, plain)
    dumps = validated("dumps", {0: BEFORE, 2: AFTER})
    assert f"{dumps} has no evaluation and {js} no validations" in rejected(js, dumps)
    assert "against another base model" in rejected(js, evaluated("grpo", ("in_domain",), 1.0, base="other"))
    assert "no split in common (in_domain; far)" in rejected(js, evaluated("far", ("far",), 1.0))
    assert "No run validated the initial policy" in rejected(validated("late", {2: AFTER}))
    assert "starts from another model" in rejected(dumps, validated("other", {2: AFTER}, base="other"))
    assert "on different prompts" in rejected(dumps, validated("prompts", {2: [(7, 1, JOIN), (7, 1, JOIN)]}))
    old = validated("old", {0: BEFORE, 2: AFTER})
    path = old / "validation" / "0.jsonl"
    path.write_text(path.read_text().replace('"id": 1, ', "", 1))
    assert "0.jsonl line 1 has no 'id', which earlier versions did not write" in rejected(old)
