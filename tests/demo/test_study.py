"""The study's comparison over seeds, from real sample files, and its command line."""

import json
import os
import re
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest

from rl.demo import experiment, stages, study, study_report
from rl.demo.experiment import SCRIPTS, sample_files
from rl.demo.expert import expert_responses
from rl.demo.methods import METHODS, PAPER_METHODS
from rl.demo.stage_marks import write_mark
from rl.demo.study import run_name
from rl.demo.study_figure import study_figure
from rl.demo.study_report import COLUMNS, OverSeeds, compare_methods, study_tables, write_study
from rl.demo.task import TaskSettings, make_task
from rl.evaluation.analysis.paired_test import holm

PROMPTS, N = 4, 32
STYLES = ("JOIN", "IN", "EXISTS", "CTE", "AGG")


@pytest.fixture(scope="module")
def written(tmp_path_factory, write_made_up_samples):
    """Seeds 1 and 2: GRPO is right in 16 and 24 of 32 samples and has 1 style, DPH-JS in 24 and 24 and has 4."""
    tmp_path = tmp_path_factory.mktemp("study")
    of_runs = {"base": (8, 4), "base_again": (8, 4)}
    of_runs |= {run_name("grpo", 1): (16, 1), run_name("grpo", 2): (24, 1)}
    of_runs |= {run_name("dph_js", seed): (24, 4) for seed in (1, 2)}
    for name, (correct, styles) in of_runs.items():
        what = {"model": name.removesuffix("_again"), "seed": 102 if name == "base_again" else 101}
        right = np.tile(np.arange(N) < correct, (PROMPTS, 1))
        for split in sample_files(name).values():

            def pred(prompt, sample, styles=styles):
                return f"/*{STYLES[sample % styles]}*/ SELECT 1"

            write_made_up_samples(tmp_path / split["samples"], right, pred, **what)
            write_made_up_samples(
                tmp_path / split["greedy"], right[:, :1], pred, **what | {"seed": 101, "temperature": 0.0}
            )
    labels = {"grpo": "GRPO", "dph_js": "DPH-JS"}
    specs = {
        seed: {
            "title": "t",
            "summary": "s",
            "methods": {name: {"splits": sample_files(name)} for name in ("base", "base_again")}
            | {name: {"splits": sample_files(run_name(name, seed))} for name in labels},
        }
        for seed in (1, 2)
    }
    table = write_study(tmp_path, labels, specs, {"steps": 80})
    return tmp_path, json.loads((tmp_path / "study.json").read_text()), table.read_text()


def test_means_and_intervals_over_seeds(written):
    folder, content, _ = written
    found = content["methods"]["grpo"]["Pass@1"]
    # Of .5 and .75: mean .625, standard error .125, Student's t with 1 degree of freedom 12.7062.
    assert found["values"] == pytest.approx([0.5, 0.75]) and found["mean"] == pytest.approx(0.625)
    assert found["interval"] == pytest.approx([0.625 - 0.125 * 12.7062, 0.625 + 0.125 * 12.7062], abs=1e-3)
    assert content["methods"]["dph_js"]["Pass@1"]["interval"] == pytest.approx([0.75, 0.75])
    assert content["bases"]["base"]["Pass@1"] == pytest.approx(0.25) and content["steps"] == 80
    styles = {name: content["methods"][name]["styles"]["values"] for name in ("grpo", "dph_js")}
    assert styles == {"grpo": [1, 1], "dph_js": [4, 4]}
    difference = content["differences"]["dph_js - grpo"]["Pass@1"]
    assert difference["values"] == pytest.approx([0.25, 0.0], abs=1e-9) and difference["mean"] == pytest.approx(0.125)
    for seed in (1, 2):
        assert (folder / f"seed_{seed}" / "report.html").exists()


def test_the_table_has_a_row_for_each_method_and_difference(written):
    folder, _, table = written
    rows = [line for line in table.splitlines() if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows[:6]}
    assert len(widths) == 1
    assert rows[4].startswith("| GRPO | 1.000 ± 0.000 | 0.625 ± 1.588 |")
    assert any(
        row.startswith("| DPH-JS minus GRPO | 0.000 ± 0.000, p 1.000 | 0.125 ± 1.588, p 1.000 |") for row in rows
    )
    assert "greedy, out of domain" in table and "Pass@1, out of domain" in table


def test_the_figure_is_narrow_and_every_colour_of_it_turns_in_the_dark(written):
    folder, *_ = written
    figure = (folder / "study.svg").read_text()
    drawn, namespace = ElementTree.fromstring(figure), {"svg": "http://www.w3.org/2000/svg"}
    assert drawn.get("width") == "328pt"  # a phone's screen of 360 pixels less a page's margins
    texts = [text.text for text in drawn.iterfind(".//svg:text", namespace)]
    assert {"GRPO", "DPH-JS", "style entropy 0.00", "all questions", "base model", "one seed"} <= {*texts}
    styles = " ".join(element.get("style", "") for element in drawn.iter())
    rules = drawn.find("svg:style", namespace).text
    assert rules.startswith("@media (prefers-color-scheme: dark)")
    found = set(re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", styles))
    assert len(found) >= 5 and all(f'[style*="{colour}"]' in rules for colour in found)


def test_groups_of_questions_have_a_table_and_curves_of_their_own_and_are_not_compared(written):
    folder, *_ = written
    reports = [json.loads((folder / f"seed_{seed}" / "report.json").read_text()) for seed in (1, 2)]
    for report in reports:
        for name, halved in (("base", 0.5), ("grpo", 0.25), ("dph_js", 0.5)):
            of_split = report[name]["in_domain"]
            passed = {k: [halved * value for value in values] for k, values in of_split["pass@k"].items()}
            groups = {"ambiguous": of_split | {"pass@k": passed}, "plain": of_split}
            report[name]["in_domain"] = of_split | {"groups": {"ambiguous": groups}}
    labels = {"grpo": "GRPO", "dph_js": "DPH-JS"}
    methods = {name: study_report._over_seeds([study_report._values(r[name]) for r in reports]) for name in labels}
    # Pass@1 of GRPO is .5 and .75, of which a quarter are .125 and .1875.
    assert methods["grpo"]["Pass@1, ambiguous"].values == pytest.approx([0.125, 0.1875])
    assert methods["grpo"]["Pass@1, plain"].values == pytest.approx([0.5, 0.75])
    base = {"base": study_report._values(reports[0]["base"])}
    table = study_tables(base, methods, {}, labels, [1, 2]).partition("Groups of the questions in domain:\n\n")[2]
    columns, _, of_base, *rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    assert columns[:4] == [f"{name}, ambiguous" for name in ("greedy", "Pass@1", "Pass@8", "Pass@32")]
    assert of_base[:3] == ["base", "1.000", "0.125"] and [row[0] for row in rows] == ["GRPO", "DPH-JS"]
    figure = study_figure(reports, labels, {"grpo": 0.1, "dph_js": 0.8})
    assert "ambiguous questions" in figure and "all questions" not in figure
    compared = compare_methods(methods)["dph_js - grpo"]
    assert {"greedy, out of domain", "Pass@1, out of domain"} < {*compared} < {*COLUMNS}


def test_one_seed_has_no_interval_and_no_p():
    assert OverSeeds.of([0.5]) == OverSeeds([0.5], 0.5, None) and str(OverSeeds.of([0.5])) == "0.500"
    of_seed = {name: {"greedy": OverSeeds.of([value])} for name, value in (("grpo", 0.5), ("dph_js", 0.75))}
    assert str(compare_methods(of_seed)["dph_js - grpo"]["greedy"]) == "0.250"


def test_where_a_divergence_is_worse_is_said_as_where_it_is_better():
    def methods(**values):
        return {name: {c: OverSeeds.of(v) for c, v in of.items()} for name, of in values.items()}

    zero = {"greedy": [0.0, 0.0, 0.0], "greedy, out of domain": [0.0, 0.0, 0.0], "Pass@8": [0.0, 0.0, 0.0]}
    of_js = {"greedy": [0.1, 0.101, 0.102], "greedy, out of domain": [-0.1, -0.101, -0.102], "Pass@8": [0.0, 0.1, 0.2]}
    found = compare_methods(methods(grpo=zero, dph_js=of_js))
    # t of [.1, .101, .102] is .101 sqrt(3) / .001 = 174.9 with 2 degrees of freedom; of [0, .1, .2] sqrt(3).
    p = [found["dph_js - grpo"][column].p for column in of_js]
    assert p == pytest.approx([3.27e-5, 3.27e-5, 0.2254], rel=2e-3)
    assert [value.p_holm for value in found["dph_js - grpo"].values()] == pytest.approx(holm(p))
    text = study_tables({}, methods(grpo=zero, dph_js=of_js), found, {"grpo": "GRPO", "dph_js": "JS"}, [1, 2, 3])
    assert "\n- Higher with p at most 0.05: greedy (JS minus GRPO).\n" in text
    assert "\n- Lower with p at most 0.05: greedy, out of domain (JS minus GRPO).\n" in text
    assert "| **-0.101 ± 0.002, p 0.000** | 0.100 ± 0.248, p 0.225 |" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--methods", "grpo,ppo"], "--methods 'grpo,ppo': ['ppo'] is not a method; use some of grpo, dapo"),
        (["--seeds", "1,x"], "--seeds '1,x': give whole numbers"),
        (["--jobs", "0"], "--jobs is 0; it must be at least 1"),
    ],
)
def test_a_wrong_argument_is_one_sentence(arguments, sentence, capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        study.main(["--out", str(tmp_path / "out"), *arguments])
    assert stop.value.code == 2 and sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_seeds_are_compared_on_the_same_base_and_eta_0_is_of_its_family(tmp_path):
    specs = study.Study(tmp_path, ["dapo_exp", "dph_js"], [1, 2], steps=4, at_once=2)._specs()
    of_eta = {name: (entry.get("family"), entry.get("eta")) for name, entry in specs[2]["methods"].items()}
    assert of_eta == {
        "base": (None, None),
        "base_again": (None, None),
        "dapo_exp": ("DPH-JS", 0.0),
        "dph_js": ("DPH-JS", 0.5),
    }
    assert specs[1]["methods"]["base"] == specs[2]["methods"]["base"]
    assert specs[2]["methods"]["dph_js"]["splits"]["in_domain"]["samples"] == "eval/dph_js_s2/in_domain.jsonl"


def test_a_finished_study_only_writes_its_report_again(tmp_path, monkeypatch):
    """Whatever the code of the report and the names of methods have become since."""
    options = {"methods": ["grpo", "dph_js"], "seeds": [1], "steps": 4, "at_once": 2}
    before = study.Study(tmp_path, **options)
    for stage in before.stages():
        assert not before.pipeline._is_done(stage)
        write_mark(before.pipeline._mark_path(stage), before.pipeline._identity(stage), seconds=60.0)
        for path in stage.outputs:
            path.mkdir(parents=True)
    monkeypatch.setitem(METHODS, "grpo", replace(METHODS["grpo"], label="Renamed"))
    monkeypatch.setattr(experiment, "scorer_server", lambda *_: nullcontext("http://127.0.0.1:9"))
    monkeypatch.setattr(stages.subprocess, "Popen", lambda *_, **__: pytest.fail("a program was started"))
    monkeypatch.setattr(study_report, "write_study", lambda out, labels, specs, facts: (labels, facts))
    labels, facts = study.Study(tmp_path, **options).run()
    assert labels["grpo"] == "Renamed" and facts["seconds_of_stages"]["train_dph_js_s1"] == 60.0


def test_a_baseline_trains_with_its_settings_on_what_it_needs(tmp_path):
    found = study.Study(tmp_path, ["kl_cov", "zero_success", "dph_js"], [1], steps=4, at_once=2)
    stages = {stage.name: stage for stage in found.stages()}
    assert stages["train_kl_cov_s1"].environment["KL_COV_RATIO"] == "0.02"
    needs = {name: [*stage.needs] for name, stage in stages.items() if name.startswith(("train", "unsolved", "split"))}
    assert needs == {
        "split": ["presample"],
        "unsolved": ["presample"],
        "train_kl_cov_s1": ["model"],
        "train_zero_success_s1": ["unsolved"],
        "train_dph_js_s1": ["store"],
    }
    # The script's default is what the stage writes.
    environment = os.environ | stages["train_zero_success_s1"].environment
    command = [*stages["train_zero_success_s1"].command, "--dry-run"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"data.train_files='{stages['unsolved'].outputs[1]}'" in done.stdout
    assert "--keep-zero" in stages["unsolved"].command and "--keep-zero" not in stages["split"].command
    without = study.Study(tmp_path, ["kl_cov"], [1], steps=4, at_once=2)
    assert "unsolved" not in {stage.name for stage in without.stages()}


def test_every_script_is_there_and_labels_differ():
    assert all((SCRIPTS / method.script).is_file() for method in METHODS.values())
    assert len({method.label for method in METHODS.values()}) == len(METHODS)


def test_a_method_on_another_store_has_its_stage_and_only_then(tmp_path):
    def stages_of(*methods):
        made = study.Study(tmp_path, list(methods), [1], steps=4, at_once=2).stages()
        return {stage.name: stage for stage in made}

    assert not [name for name in stages_of(*PAPER_METHODS) if name.startswith("store_")]
    found = stages_of("dph_f", "dph_f_solved", "rft_solved", "dph_f_solved_explore_all")
    assert [name for name in found if name.startswith("store")] == ["store", "store_solved_all"]
    store, default = found["store_solved_all"], found["store"]
    path = store.environment["SFT_PT"]
    assert (store.needs, [str(output) for output in store.outputs]) == (["store"], [str(tmp_path / "data/solved_all")])
    assert path == str(tmp_path / "data/solved_all/pef.pt") and default.environment["SFT_PT"] != path
    assert (store.environment["SFT_COVERAGE"], store.environment["SFT_RESPONSES_PER_PROMPT"]) == ("solved", "all")
    trained = {name: found[f"train_{name}_s1"] for name in ("dph_f", "dph_f_solved", "rft_solved")}
    assert {name: stage.environment["SFT_PT"] == path for name, stage in trained.items()} == {
        "dph_f": False,
        "dph_f_solved": True,
        "rft_solved": True,
    }
    assert trained["dph_f_solved"].needs == ["store_solved_all"] and trained["dph_f"].needs == ["store"]
    alone = trained["rft_solved"].environment
    assert (alone["POLICY_LOSS_COEFF"], alone["ROLLOUT_N"]) == ("0", "1")
    assert found["train_dph_f_solved_explore_all_s1"].environment["EXPLORED"] == "all"
    found = stages_of("chord_mu")
    store, trained = found["store_expert"], found["train_chord_mu_s1"]
    assert store.environment["SFT_RESPONSES"] == str(found["expert"].outputs[0]) and "expert" in store.needs
    assert trained.environment["FOREIGN_PT"] == store.environment["SFT_PT"] != trained.environment["SFT_PT"]


def test_the_experts_responses_are_right_and_of_one_style(tmp_path):
    make_task(tmp_path, TaskSettings(train=8, eval=4, sft=8))
    rows = expert_responses(tmp_path / "train.parquet")
    questions = pq.read_table(tmp_path / "train.parquet").to_pylist()
    assert [row["id"] for row in rows] == [question["id"] for question in questions]
    for row, question in zip(rows, questions, strict=True):
        truth = question["reward_model"]["ground_truth"]
        assert row["response"] == f"```sql\n/*IN*/ {truth['gold_sql']}\n```"
