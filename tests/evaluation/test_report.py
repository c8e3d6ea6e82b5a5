"""The report from real files, end to end: report.json's shape and values, the page, the command line, its refusals."""

import json
import re
from html.parser import HTMLParser

import jsonschema
import numpy as np
import pytest

from rl.common.errors import UserError
from rl.data.sample_file import SampleMetadata, SampleRecord, SampleWriter
from rl.evaluation.report.command import main
from rl.evaluation.report.svg import spread
from rl.evaluation.report.write import write_report
from rl.evaluation.spec import read_spec

STYLES = ("JOIN", "IN", "EXISTS", "CTE", "AGG")
PROMPTS, N = 12, 16

INTERVAL = {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}
INTERVAL_OR_NULL = {"anyOf": [INTERVAL, {"type": "null"}]}
SUMMARY = {
    "type": "object",
    "additionalProperties": False,
    "required": [
        "n", "prompts", "greedy", "pass@k", "mean@k", "keep_rate", "lost", "newly_solved", "styles", "style_entropy",
        "style_share", "truncated", "maj@k", "maj_by", "distinct_correct", "distinct_results", "unparsed_sql",
        "distinct_1", "distinct_2", "distinct_3", "distinct_4", "response_tokens",
    ],
    "properties": {
        "n": {"const": N},
        "prompts": {"const": PROMPTS},
        "pass@k": {"required": ["1", "2", "4", "8", "16"], "additionalProperties": INTERVAL, "maxProperties": 5},
        "maj@k": {"required": ["1", "2", "4", "8", "16"], "additionalProperties": INTERVAL, "maxProperties": 5},
        "unparsed_sql": {"const": 0},
        "maj_by": {"const": "syntax"},
        "mean@k": {"required": ["16"], "additionalProperties": INTERVAL},
        "style_share": {"required": [*STYLES, "Others"], "additionalProperties": {"type": "number"}},
        "truncated": {"type": "number"},
    }
    | {
        name: INTERVAL_OR_NULL
        for name in (
            "greedy", "keep_rate", "lost", "newly_solved", "styles", "style_entropy", "distinct_correct",
            "distinct_results",
        )
    }
    | {name: INTERVAL for name in ("distinct_1", "distinct_2", "distinct_3", "distinct_4", "response_tokens")},
}  # fmt: skip
REPORT = {
    "type": "object",
    "required": ["base", "base_again", "grpo", "dph_js", "_definitions", "_claims", "_tests", "_labels"],
    "properties": {
        "_definitions": {"additionalProperties": {"type": "string"}},
        "_claims": {"type": "array"},
        "_tests": {"type": "array"},
        "_labels": {"additionalProperties": {"type": "string"}},
    },
    "additionalProperties": {
        "required": ["in_domain", "out_of_domain"],
        "additionalProperties": SUMMARY,
    },
}


ALL_PROMPTS = range(PROMPTS)


def write_samples(
    path, seed, accuracy, styles, n=N, prompts=ALL_PROMPTS, temperature=1.0, model="trained", outcome="match"
):
    """Writes a samples file as the sampler does, with random answers of a given accuracy."""
    path.unlink(missing_ok=True)
    rng = np.random.default_rng(seed)
    metadata = SampleMetadata(
        model, model, "hash", temperature, 0.95, -1, n, seed, 64, {"test.parquet": "hash"}, len(prompts)
    )
    with SampleWriter(path, metadata) as writer:
        for prompt in prompts:
            for sample in range(n):
                acc = int(rng.random() < accuracy)
                pred = f"/*{rng.choice(styles)}*/ SELECT 1"
                record = (100 + prompt, sample, "q", "a", [1, 2, 3, 4], float(acc), acc, pred, outcome, "sql", False)
                writer.append(SampleRecord(*record))


@pytest.fixture
def run(tmp_path):
    """A specification on disk with its files: (path of the specification, its content)."""
    accuracy = {"base": (0.4, STYLES), "base_again": (0.4, STYLES), "grpo": (0.9, STYLES[:1]), "dph_js": (0.9, STYLES)}
    methods = {}
    for seed, (name, (share, styles)) in enumerate(accuracy.items()):
        splits = {}
        for split in ("in_domain", "out_of_domain"):
            files = {"samples": f"{name}.{split}.jsonl", "greedy": f"{name}.{split}.greedy.jsonl"}
            model = name.removesuffix("_again")
            write_samples(tmp_path / files["samples"], seed + 10 * len(split), share, styles, model=model)
            write_samples(tmp_path / files["greedy"], seed, share, styles, n=1, temperature=0.0, model=model)
            splits[split] = files
        methods[name] = {"splits": splits}
    log = tmp_path / "train.jsonl"
    log.write_text(
        "".join(
            json.dumps({"step": step, "data": {"critic/rewards/mean": step / 10, "dph/divergence": 1 / step}}) + "\n"
            for step in range(1, 6)
        )
    )
    methods["dph_js"] |= {"training_log": log.name, "label": "DPH-JS <η 0.2>"}
    content = {
        "title": "A & B",
        "summary": "What was run.",
        "methods": methods,
        "settings": {"learning rate": 3e-4},
        "seconds": {"train": 75.0, "evaluate": 5.5},
    }
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(content))
    return path, content


class Tags(HTMLParser):
    VOID = {"meta", "br", "img", "hr", "link"}

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.references, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        self.references += [values[key] for key in ("href", "src") if key in values]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_report_from_files(run, tmp_path):
    path, _ = run
    out = tmp_path / "out"
    report = write_report(read_spec(path), out)
    assert json.loads((out / "report.json").read_text()) == report
    jsonschema.validate(report, REPORT)
    assert sorted(p.name for p in out.iterdir()) == ["report.html", "report.json"]
    assert report["grpo"]["in_domain"]["style_entropy"] == [0, 0, 0]
    assert report["grpo"]["in_domain"]["style_share"]["JOIN"] == 1
    assert report["dph_js"]["in_domain"]["style_entropy"][0] > 1
    assert report["base"]["in_domain"]["pass@k"]["1"][0] == pytest.approx(0.4, abs=0.1)
    verdicts = {(c["split"], c["method"], c["predicate"]): c["verdict"] for c in report["_claims"]}
    assert verdicts["in_domain", "grpo", "ends in one style"] == "seen"
    assert verdicts["in_domain", "dph_js", "keeps several styles"] == "seen"
    assert verdicts["out_of_domain", "grpo", "beats the base in Pass@1"] == "seen"
    assert ("out_of_domain", "grpo", "ends in one style") not in verdicts
    tests = {(t["split"], t["first"], t["second"], t["metric"]): t for t in report["_tests"]}
    assert tests["in_domain", "grpo", "base", "mean@16"]["p_holm"] < 0.01
    assert ("in_domain", "grpo", "base_again", "keep_rate") in tests
    assert tests["in_domain", "dph_js", "grpo", "style_entropy"]["difference"][0] > 1
    assert all(test["p"] <= test["p_holm"] <= 1 for test in tests.values())


def test_page_is_whole_and_needs_nothing_from_outside(run, tmp_path):
    path, _ = run
    write_report(read_spec(path), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert not re.search(r"https?://|src=|@import|url\((?!#)", page)
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert tags.open == []
    assert len(tags.ids) == len(set(tags.ids))
    assert {r.removeprefix("#") for r in tags.references} <= set(tags.ids)
    assert page.count('<svg class="plot"') == 10 + 2  # five groups of two splits, two training curves
    assert not re.search(r"#0000[01][0-9]", page)  # no stand-in colour is left
    text = " ".join(tags.text)
    for expected in ("A & B", "DPH-JS <η 0.2>", "1 min 15 s", "ends in one style", "Pass@16", "seed", "0.0003"):
        assert expected in text


def test_same_files_give_the_same_page(run, tmp_path):
    path, _ = run
    pages = []
    for name in ("first", "second"):
        write_report(read_spec(path), tmp_path / name)
        pages.append((tmp_path / name / "report.html").read_text())
    assert pages[0] == pages[1]


def test_command_line(run, tmp_path, capsys):
    path, content = run
    assert main(["--spec", str(path), "--out", str(tmp_path / "out"), "--check"]) == 0
    assert str(tmp_path / "out" / "report.html") in capsys.readouterr().out
    grpo, dph_js = content["methods"]["grpo"]["splits"], content["methods"]["dph_js"]["splits"]
    content["methods"]["grpo"]["splits"], content["methods"]["dph_js"]["splits"] = dph_js, grpo
    path.write_text(json.dumps(content))
    assert main(["--spec", str(path), "--out", str(tmp_path / "out")]) == 0
    assert main(["--spec", str(path), "--out", str(tmp_path / "out"), "--check"]) == 1
    assert capsys.readouterr().err.count("Check failed:") == 2
    path.write_text("{")
    with pytest.raises(SystemExit) as end:
        main(["--spec", str(path), "--out", str(tmp_path / "none")])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith(f"Error: The report's specification {path} is not JSON")
    assert not (tmp_path / "none").exists()


def test_a_task_without_styles_greedy_or_logs(run, tmp_path):
    path, content = run
    content["styles"] = []
    for method in content["methods"].values():
        method.pop("training_log", None)
        for files in method["splits"].values():
            del files["greedy"]
    path.write_text(json.dumps(content))
    report = write_report(read_spec(path), tmp_path / "out")
    summary = report["grpo"]["in_domain"]
    assert summary["greedy"] is summary["styles"] is summary["style_entropy"] is summary["style_share"] is None
    assert {c["verdict"] for c in report["_claims"] if "greedy" in c["predicate"]} == {"not measured"}
    assert (tmp_path / "out" / "report.html").read_text().count('<svg class="plot"') == 6


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [
        ({"prompts": range(1, PROMPTS)}, "different prompts .1 missing, 0 more; the first lacks id 100"),
        ({"n": N - 1}, "sampled with n 15 and .* with 16"),
        ({"temperature": 0.6}, "sampled with temperature 0.6 and .* with 1.0"),
        ({"model": "another"}, "one method but of two models"),
    ],
)
def test_methods_that_cannot_be_compared(run, tmp_path, samples, sentence):
    path, _ = run
    write_samples(tmp_path / "grpo.in_domain.jsonl", 3, 0.5, STYLES, **({"model": "grpo"} | samples))
    with pytest.raises(UserError, match=sentence):
        write_report(read_spec(path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_second_draw_must_be_another_draw(run, tmp_path):
    path, content = run
    content["methods"]["base_again"] = content["methods"]["base"]
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="is the same draw as .* both with seed 90"):
        write_report(read_spec(path), tmp_path / "out")
    content["methods"]["base_again"] = content["methods"]["grpo"]
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="is of another model than"):
        write_report(read_spec(path), tmp_path / "out")


def test_greedy_has_one_answer_a_prompt(run, tmp_path):
    path, _ = run
    write_samples(tmp_path / "grpo.in_domain.greedy.jsonl", 3, 0.5, STYLES, n=2, model="grpo")
    with pytest.raises(UserError, match="2 greedy answers a prompt"):
        write_report(read_spec(path), tmp_path / "out")


def test_failed_reference_queries_are_said(run, tmp_path):
    path, _ = run
    write_samples(tmp_path / "grpo.in_domain.jsonl", 3, 0.5, STYLES, model="grpo", outcome="gold_error")
    write_report(read_spec(path), tmp_path / "out")
    assert "for 192 of 192 samples the reference query itself failed" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"titel": "x"}, "unknown key 'titel'"),
        ({"title": 3}, "'title' of the specification must be a str, not 3"),
        ({"methods": {}}, "no method 'base'"),
        ({"methods": {"base": {}}}, "method 'base' lacks 'splits'"),
        ({"methods": {"base": {"splits": {}}}}, "method 'base' has no split"),
        ({"methods": {"base": {"splits": {"s": {"greedy": "x"}}}}}, "split 's' of method 'base' lacks 'samples'"),
        (
            {"methods": {n: {"splits": {n: {"samples": "x"}}} for n in ("base", "grpo")}},
            "method 'grpo' has the splits .'grpo'. and 'base' has .'base'.",
        ),
    ],
)
def test_faulty_specifications(run, change, sentence):
    path, content = run
    path.write_text(json.dumps(content | change))
    with pytest.raises(UserError, match=sentence):
        read_spec(path)


def test_labels_do_not_overlap():
    placed = spread([0.98, 0.99, 0.97, 0.2], gap=0.1, low=0.0, high=1.0)
    np.testing.assert_allclose(placed, [0.9, 1.0, 0.8, 0.2])
    assert spread([0.0, 0.5], gap=0.1, low=0.05, high=0.95) == [0.05, 0.5]
