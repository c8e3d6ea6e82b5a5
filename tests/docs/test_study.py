"""What README.md and docs/ say of the study is in docs/study, whose means are those of the runs."""

import json
import re
from collections import defaultdict

import numpy as np
import pytest
from scipy import stats

from rl.configuration import ACTOR
from rl.configuration.arguments import run_of
from rl.configuration.setting import settings_of
from rl.configuration.training import Eta, Rehearsal
from rl.demo.methods import METHODS
from rl.demo.study import SEEDS as SEEDS_OF_THE_STUDY
from rl.demo.study import parser
from rl.evaluation.analysis.paired_test import holm
from rl.evaluation.analysis.trade_off import base_values
from rl.evaluation.over_seeds import compared
from tests.docs.conftest import rows, site_module
from tests.programs import REPOSITORY

FOLDER = REPOSITORY / "docs" / "study"
STUDY = json.loads((FOLDER / "study.json").read_text())
SEEDS = json.loads((FOLDER / "seeds.json").read_text())
RUN = len(SEEDS["seeds"])  # of ten seeds
DRAWN = json.loads((FOLDER / "drawn.json").read_text())
REHEARSED = json.loads((FOLDER / "drawn_rehearsed.json").read_text())
LONG = json.loads((FOLDER / "long.json").read_text())
BASES = json.loads((FOLDER / "bases.json").read_text())
README = (REPOSITORY / "README.md").read_text()
study_page = site_module("study")
PAGE = (REPOSITORY / "docs" / "explanation" / "study.md").read_text()
RECORDED = ("seeds", "drawn", "drawn_rehearsed", "long", "bases", "methods", "study")


def base_mean(values: dict, column: str) -> float:
    """Of both draws, over seeds."""
    return float(np.mean(base_values(values, column)))


def above_base(values: dict, name: str, column: str) -> np.ndarray:
    """[seeds] by how much a method is above the mean of the base's draws."""
    return np.subtract(values["methods"][name][column]["values"], base_values(values, column))


def above_in_all_four(values: dict, name: str) -> int:
    """The number of seeds in which it is above the base in Pass@1 and Pass@8, in domain and out of domain."""
    return (np.array([above_base(values, name, column) for column in study_page.ABOVE_IN]).min(axis=0) > 0).sum()


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_result_follows_from_the_recorded_values(name):
    """Means, intervals, p and corrected p: none was computed by code that has changed since."""
    recorded = json.loads((FOLDER / f"{name}.json").read_text())
    values = {
        method: [{column: found["values"][number] for column, found in of.items()} for number in range(len(seeds))]
        for seeds in (recorded["seeds"],)
        for method, of in (recorded["bases"] | recorded["methods"]).items()
    }
    baselines = list(dict.fromkeys(pair.split(" - ")[1] for pair in recorded["differences"]))
    primary = {tuple(pair.split(" - ")): list(of) for pair, of in recorded.get("primary", {}).items()}
    columns = [column for of in recorded["differences"].values() for column in of]
    about = {"labels": recorded["methods"], "columns": list(dict.fromkeys(columns))}
    found = compared(values, about | {"drawn_with": recorded.get("drawn_with")}, baselines, primary)
    for part in ("bases", "methods", "differences", "primary"):
        results = found[part]
        for row, column in ((row, column) for row, of in recorded.get(part, {}).items() for column in of):
            stored, result = recorded[part][row][column], results[row][column]
            for fact in stored.keys() - {"values"}:
                assert stored[fact] == pytest.approx(getattr(result, fact), abs=1e-9), (part, row, column, fact)


@pytest.mark.parametrize("name", RECORDED)
def test_the_recorded_numbers_of_questions_are_those_of_the_values(name):
    """Greedy accuracy and Pass@n are whole numbers of questions."""
    recorded = json.loads((FOLDER / f"{name}.json").read_text())
    for split, of_split in {"in_domain": "", "out_of_domain": ", out of domain"}.items():
        shares = [
            value
            for of in [*recorded["bases"].values(), *recorded["methods"].values()]
            for metric in ("greedy", "Pass@32")
            for value in of[metric + of_split]["values"]
        ]
        counts = np.multiply(shares, recorded["questions"][split]["prompts"])
        assert np.abs(counts - counts.round()).max() < 1e-6
        assert (counts.round() % 2).any() and (counts.round() % 3).any(), "a smaller number would do"


@pytest.mark.parametrize("method", STUDY["methods"])
def test_the_tables_have_the_means_of_the_runs(method):
    columns, text = STUDY["methods"][method], (FOLDER / "study.md").read_text()
    shown = [cell for table in (0, 1) for cell in rows(text, table)[STUDY["labels"][method]]]
    assert len(shown) == len(columns)
    for cell, (column, found) in zip(shown, columns.items(), strict=True):
        values = found["values"]
        assert len(values) == len(STUDY["seeds"]) == 3, column
        half = stats.t.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
        assert cell == f"{np.mean(values):.3f} ± {half:.3f}"


def test_what_is_said_of_the_other_methods_is_recorded():
    """The table of docs/explanation/study.md is a part of methods.md, and the means in its text are recorded."""
    page = PAGE
    content, columns = json.loads((FOLDER / "methods.json").read_text()), ("Pass@1", "Pass@8", "Pass@32")
    recorded = rows((FOLDER / "methods.md").read_text())
    header = ["greedy", *recorded["greedy"]]  # the first cell is empty
    shown = rows(page[page.index("## Rehearsing all that was solved") :])
    assert {"base", "base, second draw", "GRPO", "DPH-F", "DPH-JS", "DPH-F solved"} < set(shown)
    tests = [*map(len, content["differences"].values())]
    for words in (f"{len(tests)} pairs with {sum(tests)} tests", f"the {tests[0]} columns of a pair"):
        assert words in page
    of_all = holm([found["p"] for of in content["differences"].values() for found in of.values()])
    left = sum(p <= 0.05 for p in of_all)
    noted = (FOLDER / "methods.md").read_text()
    assert f"(here are {len(tests)} pairs with {sum(tests)} tests)" in noted
    assert f"over all {len(of_all)} tests, {left} differences would" in noted
    for label in shown.keys() & recorded.keys():
        shown_columns = (*columns, "keep rate", "style entropy")
        assert shown[label] == [recorded[label][header.index(column)] for column in shown_columns]
    mean = {name: {column: of[column]["mean"] for column in columns} for name, of in content["methods"].items()}
    assert content["seeds"] == [1, 2, 3] and all(len(of["greedy"]["values"]) == 3 for of in content["methods"].values())
    other_etas = ("dph_f_solved_eta005", "dph_f_solved_eta05")
    for method in (*other_etas, "dph_f_eta02", "dph_f_mastered_all", "dph_f_solved_one", "rft_solved"):
        assert all(f"{mean[method][column]:.3f}".lstrip("0") in page for column in columns[1:])
    p = {column: of["p_holm"] for column, of in content["differences"]["dph_f_solved - grpo"].items()}
    for column in columns[1:]:
        assert f"{p[column]:.3f}".lstrip("0") in page
    base = base_mean(content, "Pass@8")
    assert {name for name in mean if mean[name]["Pass@8"] > base} == {"pkpo", "clip_cov", "rft_solved"}
    best = max(
        (name for name in mean if mean[name]["Pass@1"] >= mean["grpo"]["Pass@1"]), key=lambda m: mean[m]["Pass@8"]
    )
    assert best == "dph_f_solved" and max(mean, key=lambda name: mean[name]["Pass@1"]) == "chord_mu"


def test_the_page_has_what_follows_from_the_seeds():
    assert study_page.section(SEEDS) in PAGE
    assert SEEDS["seeds"] == list(range(1, RUN + 1)) and len(SEEDS["methods"]) == 18
    again = SEEDS["bases"]["base_again"]["Pass@8"]["mean"]
    assert rows(study_page.section(SEEDS))["base, second draw"][1] == f"{again:.3f}"
    assert f"All {study_page.WORDS[RUN]} seeds have run" in PAGE and len(SEEDS_OF_THE_STUDY) == RUN
    assert f"These are means of {study_page.WORDS[RUN]} seeds" in " ".join(README.split())
    assert SEEDS["sampling"]["top_p"] == 1
    # Further seeds are joined with these only if their methods are the same.
    trained = {name: METHODS[name] for name in SEEDS["labels"] if name in METHODS}
    assert SEEDS["definitions"] == {name: of.definition for name, of in trained.items()}


def test_the_recipe_is_chosen_on_the_first_seeds_in_any_order_of_the_parts():
    values = json.loads(json.dumps(SEEDS))
    values["seeds"] = values["seeds"][3:] + values["seeds"][:3]
    for found in (found for of in ("bases", "methods") for method in values[of].values() for found in method.values()):
        found["values"] = found["values"][3:] + found["values"][:3]
    assert [*study_page._recipe(values)] == [*study_page._recipe(SEEDS)]


def test_the_recipe_s_sentence_needs_its_seeds_and_counts_only_later_ones_that_ran():
    def of_seeds(kept: slice) -> list[str]:
        values = json.loads(json.dumps(SEEDS))
        values["seeds"] = values["seeds"][kept]
        for found in (f for of in ("bases", "methods") for method in values[of].values() for f in method.values()):
            found["values"] = found["values"][kept]
        return [*study_page._recipe(values)]

    chosen = "DPH-F solved, cap .6 (above both draws' mean in 2 of them"
    assert of_seeds(slice(3, None)) == of_seeds(slice(2)) == []
    assert of_seeds(slice(3))[0].endswith(f": {chosen}).")
    assert of_seeds(slice(5))[0].endswith(f": {chosen} and in 2 of the 2 later seeds).")


def test_the_part_of_the_page_has_means_signs_and_counts():
    values = json.loads(json.dumps(SEEDS))
    values["primary"] = {
        "dph_f - grpo": {
            "Pass@1": {"mean": -0.0265, "interval": [-0.05, -0.003], "p_holm": 0.05},
            "Pass@8": {"mean": 0.1, "interval": [0.02, 0.18], "p_holm": 0.051},
        },
        "dph_f - base": {"Pass@32": {"mean": 0.2, "interval": [0.1, 0.3], "p_holm": 0.0004}},
    }
    values["seeds"] = [1, 2, 3]
    for found in (found for of in ("bases", "methods") for method in values[of].values() for found in method.values()):
        found["values"] = found["values"][:3]
    part = study_page.section(values)
    assert rows(part)["DPH-F"] == [f"{SEEDS['methods']['dph_f'][c]['mean']:.3f}" for c in study_page.COLUMNS]
    differences = (
        "| | Pass@1 | Pass@8 | Pass@32 |\n|---|---|---|---|\n"
        "| DPH-F minus GRPO | **-0.026** [-0.050, -0.003], p 0.050 | +0.100 [+0.020, +0.180], p 0.051 |  |\n"
        "| DPH-F minus base |  |  | **+0.200** [+0.100, +0.300], p < 0.001 |\n\n"
    )
    assert differences in part
    assert "1 of the 3 are undecided with three seeds; seven have not run." in part
    assert "interval over the three seeds, not corrected, and p" in part


def test_what_the_pages_say_of_the_first_seeds_holds_in_their_runs():
    found = {name: {c: of[c]["mean"] for c in of} for name, of in SEEDS["methods"].items()}
    base = {column: base_mean(SEEDS, column) for column in SEEDS["bases"]["base"]}
    capped, recipe = found["grpo_cap_180"], found["dph_f_solved_cap"]
    text = " ".join(README.split())
    for sentence, value in {
        "(DPH-JS {} % beside": found["dph_js"]["Pass@8"],
        "beside GRPO's {} and": found["grpo"]["Pass@8"],
        "the base's {}). Rehearsing": base["Pass@8"],
        "keeps {} % at nearly GRPO's Pass@1": found["dph_f_solved"]["Pass@8"],
        "A success cap of .6 (ours) raises Pass@8 to {} % and": recipe["Pass@8"],
        "and Pass@1 from {} to": base["Pass@1"],
        "to {} % (GRPO's:": recipe["Pass@1"],
        "(GRPO's: {} %), with or without rehearsal": found["grpo"]["Pass@1"],
    }.items():
        assert sentence.format(f"{100 * value:.0f}") in text
    for column in ("Pass@1", "Pass@8"):
        assert f"{found['grpo_cap'][column]:.2f}" == f"{recipe[column]:.2f}", "with or without rehearsal"
    assert found["grpo_cap"]["style entropy"] < 0.5 and recipe["style entropy"] > 1
    both = "with it Pass@1 and Pass@8 are above the base, in and out of domain, in nine of ten seeds"
    assert f"{both}, without it in seven" in text
    times = {name: above_in_all_four(SEEDS, name) for name in found}
    assert (times.pop("dph_f_solved_cap"), times["grpo_cap"], max(times.values())) == (9, 7, 7)
    train = " ".join((REPOSITORY / "docs" / "howto" / "train.md").read_text().split())
    assert "in and out of domain, with nine of ten seeds" in train
    second = {column: above_base(SEEDS, "dph_f_solved_cap", column)[1] for column in ("Pass@8", "Pass@32")}
    assert -0.001 < second["Pass@8"] < 0 and -0.035 < second["Pass@32"] < -0.025
    in_both = {
        name: (np.minimum(*(above_base(SEEDS, name, column) for column in ("Pass@1", "Pass@8"))) > 0).sum()
        for name in ("grpo_cap", "grpo_cap_180")
    }
    assert in_both == {"grpo_cap": 9, "grpo_cap_180": 10}
    assert 0.025 < found["grpo"]["Pass@1"] - capped["Pass@1"] < 0.035
    assert 0.125 < capped["Pass@8"] - found["grpo"]["Pass@8"] < 0.135
    assert 0.055 < capped["Pass@8"] - base["Pass@8"] < 0.065
    without = {"grpo_cap": "grpo", "grpo_cap_180": "grpo_180", "dph_js_cap": "dph_js", "dph_js_cap_180": "dph_js_180"}
    for name, other in {**without, "dph_f_solved_cap": "dph_f_solved"}.items():
        assert 0.045 < found[other]["Pass@1"] - found[name]["Pass@1"] < 0.105
    outside = "Pass@8, out of domain"
    assert max(found["grpo_180"][outside], capped[outside]) < base[outside]
    assert base[outside] < found["dph_js_180"][outside]
    shown = {
        "(Pass@8 {}, the base's": "grpo_180",
        "and in Pass@8 ({})": "grpo_cap_180",
        "both (Pass@8 {})": "dph_js_180",
    }
    assert all(words.format(f"{found[name][outside]:.3f}".lstrip("0")) in PAGE for words, name in shown.items())
    assert f"the base's {base[outside]:.3f})".replace("0.", ".") in PAGE
    assert capped["Pass@1, out of domain"] < base["Pass@1, out of domain"]
    kept = [name for name in found if found[name]["Pass@32"] >= base["Pass@32"]]
    assert max(kept, key=lambda name: found[name]["Pass@1"]) == "dph_js_cap_180"
    assert f"with a Pass@1 of {found['dph_js_cap_180']['Pass@1']:.3f}".replace("0.", ".") in PAGE
    assert f"at the base's Pass@32 of {base['Pass@32']:.3f} is" in PAGE
    of_kinds = [f"{capped[f'Pass@1, {kind}']:.3f}".lstrip("0") for kind in ("plain", "ambiguous")]
    assert "has {} on the plain questions and {} on the ambiguous ones".format(*of_kinds) in PAGE


def test_the_page_has_the_runs_that_draw_other_groups():
    assert study_page.compared(DRAWN) in PAGE
    assert DRAWN["definitions"] == {name: METHODS[name].definition for name in ("grpo", "grpo_cap_drawn")}
    seeds = ",".join(map(str, DRAWN["seeds"]))
    assert f"`--methods {','.join(DRAWN['definitions'])} --seeds {seeds} --long-steps 0`" in PAGE
    drawn, grpo = DRAWN["methods"]["grpo_cap_drawn"], DRAWN["methods"]["grpo"]
    assert all(np.greater(drawn[column]["values"], grpo[column]["values"]).all() for column in study_page.ABOVE_IN)
    assert above_in_all_four(DRAWN, "grpo_cap_drawn") == 3, "and above the base, as README and the page say"
    least = above_base(DRAWN, "grpo_cap_drawn", "Pass@8")[DRAWN["seeds"].index(4)]
    assert f"{least:.3f}" == "0.001" and "in seed 4 its Pass@8 in domain is only .001 above" in PAGE
    assert np.greater(drawn["Pass@32"]["values"], grpo["Pass@32"]["values"]).all()
    assert (above_base(DRAWN, "grpo_cap_drawn", "Pass@32") > 0).sum() == 2


def test_the_page_has_the_runs_that_draw_other_groups_and_rehearse():
    assert study_page.compared(REHEARSED) in PAGE
    names = ("grpo", "grpo_cap_drawn", "dph_f_solved_cap_drawn")
    assert REHEARSED["definitions"] == {name: METHODS[name].definition for name in names}
    seeds = REHEARSED["seeds"]
    assert f"`--methods {','.join(names)} --seeds {','.join(map(str, seeds))}`" in PAGE
    assert not {*seeds} & {*DRAWN["seeds"]}
    methods = REHEARSED["methods"]
    plain, rehearsed = methods["grpo_cap_drawn"], methods["dph_f_solved_cap_drawn"]

    def above(one: dict, other: dict, columns) -> np.ndarray:
        """[columns, seeds] bool."""
        return np.array([np.greater(one[column]["values"], other[column]["values"]) for column in columns])

    # "fewer right answers than without rehearsal", "in each of the three seeds, in Pass@8 in domain in two"
    assert all(rehearsed[column]["mean"] < plain[column]["mean"] for column in (*study_page.ABOVE_IN, "Pass@32"))
    over_base = {c: (above_base(REHEARSED, "dph_f_solved_cap_drawn", c) > 0).sum() for c in study_page.ABOVE_IN}
    assert over_base == {**dict.fromkeys(study_page.ABOVE_IN, 3), "Pass@8": 2}
    # "above the base in all six, and above GRPO in five"; the first three are tested above.
    assert above_in_all_four(REHEARSED, "grpo_cap_drawn") == 3
    over_grpo = above(plain, methods["grpo"], study_page.ABOVE_IN).all(axis=0)
    outside = "Pass@8, out of domain"
    lost = np.subtract(methods["grpo"][outside]["values"], plain[outside]["values"])[~over_grpo]
    assert over_grpo.sum() == 2 and f"{lost.item():.3f}".lstrip("0") == ".016"
    recipe = SEEDS["methods"]["dph_f_solved_cap"]
    of_recipe = {
        c: np.mean([recipe[c]["values"][SEEDS["seeds"].index(s)] for s in seeds]) for c in ("Pass@1", "Pass@8")
    }
    shown = {
        "greedy out of domain it has more ({}, without": rehearsed["greedy, out of domain"]["mean"],
        "more (.747, without {})": plain["greedy, out of domain"]["mean"],
        "its style entropy is {}": rehearsed["style entropy"]["mean"],
        "with the same groups is {}.": plain["style entropy"]["mean"],
        "Its Pass@1 is {}, the": rehearsed["Pass@1"]["mean"],
        "with these seeds {};": of_recipe["Pass@1"],
        "Pass@8 in domain is {}, the": rehearsed["Pass@8"]["mean"],
        "the recipe's {}.": of_recipe["Pass@8"],
    }
    for words, value in shown.items():
        digits = 2 if "entropy" in words or "groups" in words else 3
        assert words.format(f"{value:.{digits}f}".lstrip("0")) in PAGE, words
    both = {
        c: np.mean([*DRAWN["methods"]["grpo_cap_drawn"][c]["values"], *plain[c]["values"]])
        for c in ("Pass@1", "Pass@8")
    }
    text = " ".join(README.split())
    assert f"Pass@1 rose to {100 * both['Pass@1']:.0f} % and Pass@8 to {100 * both['Pass@8']:.0f} %. Both" in text


def test_the_page_has_the_runs_of_400_steps():
    assert study_page.compared(LONG) in PAGE
    names = ("grpo", "grpo_cap", "dph_js_cap", "dph_f_solved_cap")
    assert LONG["definitions"] == {name: METHODS[name].definition for name in names}
    words = f"--seeds {','.join(map(str, LONG['seeds']))} --steps {LONG['steps']} --long-steps {LONG['long_steps']}"
    assert f"`--methods {','.join(names)} {words}`" in PAGE

    def above(name: str) -> list[bool]:
        """Whether it is above the base, by column of ABOVE_IN and Pass@32: True or False in both seeds, else None."""
        signs = (np.sign(above_base(LONG, name, column)) for column in (*study_page.ABOVE_IN, "Pass@32"))
        return [{2: True, -2: False}.get(sum(sign)) for sign in signs]

    outside = "Pass@8, out of domain"
    found = {name: of[outside]["mean"] for name, of in LONG["methods"].items()}
    long = [found[f"{name}_400"] for name in names]
    of_base = base_mean(LONG, outside)
    assert all(above(f"{name}_400")[2:4] == [False, False] for name in names)
    words = f"Pass@8 falls to {min(long):.2f} to {max(long):.2f}; the base's is {of_base:.3f}.".replace("0.", ".")
    assert words in PAGE
    assert above("grpo_cap_400") == [True, True, False, False, None]
    for name in ("dph_js_cap_400", "dph_f_solved_cap_400"):
        assert above(name) == [True, False, False, False, False]
        assert LONG["methods"][name]["style entropy"]["mean"] > 0.6
    assert [name for name in names if above(name)[:4] == [True] * 4] == ["dph_js_cap"]
    assert above("dph_f_solved_cap")[:4] == [True, True, False, False]
    seconds = [round(LONG["seconds_of_stages"][f"train_{name}_s{seed}"] / 60) for name in names for seed in (1, 2)]
    assert f"The runs took {min(seconds)} to {max(seconds)} minutes each" in PAGE
    values = found["dph_f_solved_cap_400"], found["grpo_400"], of_base
    sentence = "after 400 steps Pass@8 out of domain is {:.0f} %, GRPO's {:.0f} and the base's {:.0f}."
    assert sentence.format(*(100 * value for value in values)) in " ".join(README.split())


def test_runs_from_one_base_model_are_no_control_and_nothing_is_written(capsys):
    before = {path: path.read_bytes() for path in (FOLDER / "bases.json", study_page.PAGE)}
    with pytest.raises(SystemExit) as ended:
        study_page.main(["--bases", str(FOLDER / "seeds.json")])
    assert ended.value.code == 2 and "Error: All seeds have base model 0: give the" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in before}


def test_the_page_has_the_runs_from_other_base_models():
    assert study_page.bases(BASES) in PAGE
    assert BASES["base_seed"] == [1, 2, 3, 4] and BASES["seeds"] == [8, 9, 10, 6]
    others = study_page.WORDS[len(BASES["base_seed"])]
    assert f"From {others} other base models, with one seed each" in " ".join(README.split())
    assert BASES["definitions"] == {name: METHODS[name].definition for name in ("grpo", "dph_f_solved_cap")}
    for column in (*study_page.ABOVE_IN, "Pass@32"):
        assert min(above_base(BASES, "dph_f_solved_cap", column)) > 0, "as the page says"
    gains = above_base(SEEDS, "dph_f_solved_cap", "Pass@8")
    assert f"is between {abs(min(gains)):.2f} and {max(gains):.2f} with ten seeds".replace("0.", ".") in PAGE


def test_the_first_study_has_the_methods_that_the_page_names():
    assert f"`--methods {','.join(STUDY['methods'])} --seeds 1,2,3 --long-steps 0`" in PAGE
    assert STUDY["steps"] == parser().parse_args([]).steps


def test_the_picture_shows_the_methods_values():
    """`python docs/site/study.py` draws it again."""
    from rl.evaluation.analysis.trade_off import trade_offs_over_seeds
    from rl.evaluation.report.pareto_figure import pareto_files

    content = SEEDS
    found = trade_offs_over_seeds(content)
    for name, drawing in pareto_files(found).items():
        assert (FOLDER / name).read_text() == drawing
    assert len(found) == 2
    roles = {name: METHODS[name].role for name in content["methods"] if name in METHODS}
    assert content["roles"] == {name: role for name, role in roles.items() if role}


def test_the_recipes_commands_have_the_objective_of_the_study(monkeypatch):
    """Everything but the sizes, which are the experiment's."""
    text = (REPOSITORY / "docs" / "howto" / "train.md").read_text()
    [line] = re.findall(r"^.*dph train .* my_recipe.*$", text, re.MULTILINE)
    variables, _, command = line.partition("dph train ")
    measured = METHODS["dph_f_solved_cap"]
    runs = []
    for given, (method, *words) in (
        (dict(word.split("=") for word in variables.split()), command.split()),
        ({}, [measured.method, "my_recipe", *measured.words, "experiment=demo", "launch.folder=demo"]),
    ):
        with monkeypatch.context() as environment:
            for name, value in {"DEVICE": "cpu", "SFT_PT": "pef.pt", **given}.items():
                environment.setenv(name, value)
            runs.append(run_of(method, words).values)
    of_rehearsal = {setting.key for setting in settings_of((Rehearsal, Eta))}
    assert f"{ACTOR}.sft_loss_normalization" in of_rehearsal
    for key in (*of_rehearsal, "algorithm.adv_estimator", "algorithm.success_cap"):
        assert runs[0][key] == runs[1][key], key


def test_a_cap_that_changes_ends_between_constant_ones():
    """GRPO after 180 steps (docs/explanation/method.md): more of Pass@1 than .6 has, and more of Pass@8 than .9."""
    found = defaultdict(list)
    for run in json.loads((FOLDER / "cap_schedule.json").read_text())["runs"]:
        if (run["steps"], run["method"]) == (180, "GRPO"):
            found[run["cap"]].append([run["in_domain"][column] for column in ("Pass@1", "Pass@8")])
    assert all(len(found[cap]) == 3 for cap in (".6", ".9", "from 1 to .5", "from .5 to .9"))
    mean = {cap: np.mean(runs, axis=0) for cap, runs in found.items()}
    for cap in ("from 1 to .5", "from .5 to .9"):
        assert mean[".6"][0] < mean[cap][0] < mean[".9"][0] and mean[".9"][1] < mean[cap][1] < mean[".6"][1]


def test_what_the_page_says_of_the_study_holds_in_its_runs():
    methods = STUDY["methods"]
    for column in ("Pass@8", "Pass@32"):
        assert all(max(above_base(STUDY, name, column)) < 0 for name in methods)
    without = ("grpo", "dapo", "dapo_exp")
    mean = {name: {column: np.mean(found[column]["values"]) for column in found} for name, found in methods.items()}
    for name in methods.keys() - set(without):
        assert min(methods[name]["style entropy"]["values"]) > 0.6
        for column in ("Pass@8", "Pass@32"):
            assert 0.025 < mean[name][column] - mean["grpo"][column] < 0.085
        assert 0.045 < mean["dapo"]["Pass@1"] - mean[name]["Pass@1"] < 0.065
    assert all(max(methods[name]["style entropy"]["values"]) < 0.35 for name in without)
    higher = {
        column
        for columns in STUDY["differences"].values()
        for column, found in columns.items()
        if found["p_holm"] <= 0.05 and found["mean"] > 0
    }
    assert higher == {"style entropy"}
