"""Methods compared over training seeds, from real sample files."""

import json

import numpy as np
import pytest
from scipy import stats

from rl.evaluation.analysis.paired_test import holm
from rl.evaluation.over_seeds import (
    OverSeeds,
    columns_of,
    compared,
    differences,
    seeds_page,
    values_of,
    write_seeds,
)
from rl.evaluation.spec import specification
from tests.conftest import write_samples

PROMPTS, N = 4, 32
STYLES = ("JOIN", "IN", "EXISTS", "CTE", "AGG")


def sample_files(name: str) -> dict[str, dict[str, str]]:
    greedy = "base" if name == "base_again" else name
    return {
        split: {"samples": f"{name}/{split}.jsonl", "greedy": f"{greedy}/{split}.greedy.jsonl"}
        for split in ("in_domain", "out_of_domain")
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Seeds 1 and 2: GRPO is right in 16 and 24 of 32 samples and has 1 style, DPH-JS in 24 and 24 and has 4."""
    tmp_path = tmp_path_factory.mktemp("study")
    of_runs = {"base": (8, 4), "base_again": (8, 4)}
    of_runs |= {"grpo_s1": (16, 1), "grpo_s2": (24, 1)}
    of_runs |= {f"dph_js_s{seed}": (24, 4) for seed in (1, 2)}
    for name, (correct, styles) in of_runs.items():
        what = {"model": name.removesuffix("_again"), "seed": 102 if name == "base_again" else 101}
        right = np.tile(np.arange(N) < correct, (PROMPTS, 1))
        for split in sample_files(name).values():

            def pred(prompt, sample, styles=styles):
                return f"/*{STYLES[sample % styles]}*/ SELECT 1"

            write_samples(tmp_path / split["samples"], right, pred, **what)
            greedy = what | {"seed": 101, "temperature": 0.0}
            write_samples(tmp_path / split["greedy"], right[:, :1], pred, **greedy)
    specs = {}
    for seed in (1, 2):
        methods = {name: {"splits": sample_files(name)} for name in ("base", "base_again")}
        methods |= {name: {"splits": sample_files(f"{name}_s{seed}")} for name in ("grpo", "dph_js")}
        specs[seed] = specification({"title": "t", "summary": "s", "methods": methods}, tmp_path)
    primary = {("dph_js", "grpo"): ["Pass@1"], ("dph_js", "base"): ["Pass@1"], ("grpo", "base"): ["Pass@1"]}
    table = write_seeds(tmp_path, "study", specs, ["grpo"], {"steps": 80}, primary)
    return tmp_path, json.loads((tmp_path / "study.json").read_text()), table.read_text()


def test_means_and_intervals_over_seeds(written):
    folder, content, _ = written
    found = content["methods"]["grpo"]["Pass@1"]
    # Of .5 and .75: mean .625, standard error .125, Student's t with 1 degree of freedom 12.7062.
    assert found["values"] == pytest.approx([0.5, 0.75]) and found["mean"] == pytest.approx(0.625)
    assert found["interval"] == pytest.approx([0.625 - 0.125 * 12.7062, 0.625 + 0.125 * 12.7062], abs=1e-3)
    assert content["methods"]["dph_js"]["Pass@1"]["interval"] == pytest.approx([0.75, 0.75])
    assert content["bases"]["base"]["Pass@1"]["values"] == pytest.approx([0.25, 0.25]) and content["steps"] == 80
    difference = content["differences"]["dph_js - grpo"]["Pass@1"]
    assert difference["values"] == pytest.approx([0.25, 0.0], abs=1e-9) and difference["mean"] == pytest.approx(0.125)
    assert (folder / "seed_1" / "report.html").exists() and (folder / "seed_2" / "report.html").exists()


def test_the_second_draw_keeps_what_the_first_cannot_have():
    """The first draw is what keep rates are relative to, and the second's rate says how much of them is chance."""
    values = {name: [{"Pass@1": 0.5, "keep rate": 0.8}] * 2 for name in ("base_again", "grpo")}
    about = {"labels": {"grpo": "GRPO"}, "columns": ["Pass@1", "keep rate"]}
    found = compared(values | {"base": [{"Pass@1": 0.5}] * 2}, about, [])
    assert {name: [*columns] for name, columns in found["bases"].items()} == {
        "base": ["Pass@1"],
        "base_again": ["Pass@1", "keep rate"],
    }


def test_primary_comparisons_are_corrected_together_and_with_the_base(written):
    _, content, table = written
    primary = {pair: of["Pass@1"] for pair, of in content["primary"].items()}
    # The base is right in 8 of 32 samples: .25. Equal differences have the p of the sign test, 2 / 2^2.
    values = {"dph_js - grpo": [0.25, 0.0], "dph_js - base": [0.5, 0.5], "grpo - base": [0.25, 0.5]}
    assert {pair: found["values"] for pair, found in primary.items()} == {
        pair: pytest.approx(expected, abs=1e-9) for pair, expected in values.items()
    }
    # Student's t with 1 degree of freedom: p = 2 arctan(1 / t) / pi, of t = 1 and t = 3.
    p = {"dph_js - grpo": 0.5, "dph_js - base": 0.5, "grpo - base": 0.2048}
    assert {pair: found["p"] for pair, found in primary.items()} == pytest.approx(p, abs=1e-4)
    # Holm: the smallest of three times 3, the next times 2.
    corrected = {"dph_js - grpo": 1.0, "dph_js - base": 1.0, "grpo - base": 0.6144}
    assert {pair: found["p_holm"] for pair, found in primary.items()} == pytest.approx(corrected, abs=1e-4)
    named = table[table.index("named before the runs") : table.index("Other differences")]
    assert "| GRPO minus base | – | 0.375 ± 1.588, p 0.614 |" in named


def test_a_difference_from_the_base_is_from_the_mean_of_its_draws():
    """.08, .10, .12 and .14 above .42: the mean's variance is .02^2 * 5/3 / 4 = 1/6000, with 3 degrees of freedom."""
    values = {"grpo": [0.5, 0.52, 0.54, 0.56], "base": [0.40] * 4, "base_again": [0.44] * 4}
    columns = {name: [{"Pass@1": value} for value in of] for name, of in values.items()}
    found = differences(columns, {("grpo", "base"): ["Pass@1"]})["grpo - base"]["Pass@1"]
    error = (1 / 6000) ** 0.5
    half = stats.t.ppf(0.975, 3) * error
    assert found.interval == pytest.approx((0.11 - half, 0.11 + half))
    assert found.p == found.p_holm == pytest.approx(2 * stats.t.sf(0.11 / error, 3))


def test_groups_of_questions_have_values_and_are_not_compared(written):
    folder, *_ = written
    report = json.loads((folder / "seed_1" / "report.json").read_text())
    of_splits = report["dph_js"]
    whole = of_splits["in_domain"]
    halved = {k: [0.5 * value for value in values] for k, values in whole["pass@k"].items()}
    # A group called as another split does not take its column; DPH-JS's Pass@1 is .75, the group's half of it.
    groups = {"kind": {"out of domain": whole | {"pass@k": halved}, "plain": whole}}
    values = values_of(of_splits | {"in_domain": whole | {"groups": groups}}, 8)
    assert values["Pass@1, out of domain"] == pytest.approx(0.75) == 2 * values["Pass@1, group out of domain"]
    assert values["Pass@1, plain"] == values["Pass@1"]
    about = {"labels": {"dph_js": "JS", "grpo": "GRPO"}, "columns": list(columns_of(of_splits, 8))}
    found = compared({"dph_js": [values] * 2, "grpo": [values] * 2}, about, ["grpo"])
    assert "Pass@1, plain" in found["methods"]["grpo"]
    assert {"greedy, out of domain", "Pass@1"} < {*found["differences"]["dph_js - grpo"]} < {*about["columns"]}


def test_one_seed_has_no_interval_and_no_p():
    assert OverSeeds.of([0.5]) == OverSeeds([0.5], 0.5, None)
    values = {"grpo": [{"greedy": 0.5}], "dph_js": [{"greedy": 0.75}]}
    about = {"labels": {"grpo": "GRPO", "dph_js": "JS"}, "columns": ["greedy"], "seeds": [1], "splits": ["bird"]}
    text = seeds_page(compared(values, about, ["grpo"]) | about)
    assert text.startswith("Seed 1 alone, ") and "| JS minus GRPO | 0.250 |" in text


def test_differences_have_the_p_of_the_t_test_or_the_sign_test_corrected_by_holm():
    of_js = {"greedy": [0.1, 0.101, 0.102], "Pass@1": [-0.1, -0.101, -0.102], "Pass@8": [0.0, 0.1, 0.2]}
    of_js |= {"equal": [0.1] * 3, "same": [0.0] * 3}
    values = {
        "dph_js": [{c: of[i] for c, of in of_js.items()} for i in range(3)],
        "grpo": [dict.fromkeys(of_js, 0.0)] * 3,
    }
    found = differences(values, {("dph_js", "grpo"): [*of_js]})["dph_js - grpo"]
    # t of [.1, .101, .102] is .101 sqrt(3) / .001 = 174.9 with 2 degrees of freedom; of [0, .1, .2] sqrt(3). Equal
    # differences have the p of the sign test, 2 / 2^3.
    p = [found[column].p for column in of_js]
    assert p == pytest.approx([3.27e-5, 3.27e-5, 0.2254, 0.25, 1], rel=2e-3)
    assert [value.p_holm for value in found.values()] == pytest.approx(holm(p))
    assert [column for column, value in found.items() if value.significant] == ["greedy", "Pass@1"]
    about = {"labels": {"grpo": "GRPO", "dph_js": "JS"}, "columns": [*of_js], "seeds": [1, 2, 3], "splits": ["bird"]}
    text = seeds_page(compared(values, about, ["grpo"]) | about)
    assert "| **-0.101 ± 0.002, p < 0.001** | 0.100 ± 0.248, p 0.676 |" in text
