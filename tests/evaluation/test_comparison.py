"""Which files can be compared."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from rl.common.errors import UserError
from rl.evaluation.analysis.comparison import compare
from rl.evaluation.analysis.questions import groups_of, read_questions
from rl.evaluation.report.write import write_report
from rl.evaluation.spec import read_spec


def test_questions_must_be_those_of_the_samples(math_run):
    math_run.ask()
    math_run.content["groups"] = ["colour"]
    with pytest.raises(UserError, match="groups have colour, which no question has"):
        compare(read_spec(math_run.write()))
    math_run.ask(colour=["red", "blue"])
    with pytest.raises(
        UserError, match="math.parquet changed since .*base.0.jsonl was drawn, and its answers may differ"
    ):
        compare(read_spec(math_run.write()))
    math_run.content["questions"]["math"] = ["missing.parquet"]
    with pytest.raises(UserError, match="missing.parquet does not exist"):
        compare(read_spec(math_run.write()))
    math_run.prompts = 5
    math_run.ask()
    with pytest.raises(UserError, match="math.parquet lacks 3 of the 8 sampled questions, the first with id 105"):
        compare(read_spec(math_run.write()))


def test_an_extra_info_without_values_has_no_groups(tmp_path):
    """A text has none; pandas writes a missing number as NaN, and its question is plain."""
    question = {"prompt": [{"role": "user", "content": "q"}], "reward_model": {"ground_truth": "1"}}
    levels = [{"level": 1.0, "of_none": None}, {"level": float("nan"), "of_none": float("nan")}]
    for infos, groups in ((['{"level": 1}'], {}), (levels, {"level": ["1.0", "plain"]})):
        path = tmp_path / f"{len(infos)}.parquet"
        pd.DataFrame([{"id": id, "extra_info": of} | question for id, of in enumerate(infos)]).to_parquet(path)
        assert groups_of([path], ["level", "of_none"]) == list(groups)
        assert read_questions([path], np.arange(len(infos)), ["level", "of_none"]).groups == groups


def test_styles_are_read_from_the_structure_if_no_comment_says_them(made_up_report, tmp_path):
    made = made_up_report(tmp_path, prompts=3)
    made.method("base")
    assert compare(read_spec(made.write())).spec.styles_by == "prefix"
    for path in tmp_path.glob("*.jsonl"):
        path.write_text(re.sub(r"/\*\w+\*/ ", "", path.read_text()))
    assert compare(read_spec(made.write())).spec.styles_by == "structure"


def test_all_methods_vote_by_syntax_if_the_results_of_one_are_not_stored(made_up_report, tmp_path):
    made = made_up_report(tmp_path, splits=("in_domain",), prompts=3, greedy=False)
    made.method("base")
    made.method("grpo")
    votes = compare(read_spec(made.write())).summaries["grpo"]["in_domain"]["maj@k"]
    path = tmp_path / "grpo.0.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(one | {"result_digest": "a"}) + "\n" for one in records))
    summary = compare(read_spec(made.write())).summaries["grpo"]["in_domain"]
    assert (summary["maj_by"], summary["maj@k"]) == ("syntax", votes)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"temperature": 0.6}, "sampled with temperature 0.6, not 1.0 like .*base"),
        ({"engine": "vllm bfloat16"}, "sampled with engine vllm bfloat16, not hf float32 like"),
        ({"model_hash": "another"}, "one method but to two models"),
        ({"config_hash": "another"}, "one method but to two models"),
        (
            {"data_files": {"corrected.parquet": "another"}},
            "with data_files corrected.parquet .another., not test.parquet .*same data file",
        ),
        ({"chat_template": '{"enable_thinking": false}'}, "with chat_template {.enable_thinking.: false}, not {} like"),
        ({"scorer": "unjudged"}, "grpo.0.jsonl holds samples of prompts without ground truth"),
        (
            {"scorer": "other"},
            r"Scorers with other settings judged .*grpo.* and .*base.* \(verdict_sha256 other and rules\)",
        ),
    ],
)
def test_methods_that_cannot_be_compared(math_run, tmp_path, changed, sentence):
    for name, changes in (
        ("base", {"chat_template": "{}", "scorer": "rules", "engine": "hf float32"}),
        ("grpo", changed),
    ):
        path = tmp_path / f"{name}.0.meta.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(UserError, match=sentence):
        write_report(read_spec(math_run.write()), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_methods_may_have_another_tokenizer_and_seed(math_run, tmp_path):
    for path in tmp_path.glob("grpo.0*.meta.json"):
        changes = {"tokenizer_hash": "another", "config_hash": "another", "seed": 99, "overlong_ids": [3]}
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert compare(read_spec(math_run.write())).samples["grpo"]["math"].prompts


def test_second_draw_and_greedy_files_are_checked(math_run, tmp_path):
    methods = math_run.content["methods"]
    right = methods["base_again"]
    for other, sentence in (("base", "is the same draw as .* both with seed"), ("grpo", "belongs to another model")):
        methods["base_again"] = methods[other]
        with pytest.raises(UserError, match=sentence):
            compare(read_spec(math_run.write()))
    methods["base_again"] = right
    path = tmp_path / "grpo.0.greedy.meta.json"
    described = path.read_text()
    for name, value, said in (
        ("data_files", {"corrected.parquet": "another"}, "corrected.*, not test.parquet"),
        ("temperature", 0.8, "0.8: greedy responses need 0"),
        ("max_response_length", 63, "63, not 64 like .*grpo.0.jsonl"),
        ("engine", "vllm bfloat16", "vllm bfloat16, not .* like .*grpo.0.jsonl"),
    ):
        path.write_text(json.dumps(json.loads(described) | {name: value}))
        with pytest.raises(UserError, match=f"grpo.0.greedy.jsonl was sampled with {name} {said}"):
            compare(read_spec(math_run.write()))
    path.write_text(described)
    methods["grpo"]["splits"]["math"]["greedy"] = "grpo.0.jsonl"
    with pytest.raises(UserError, match="grpo.0.jsonl was sampled with n 16: greedy responses need 1"):
        compare(read_spec(math_run.write()))


def test_two_methods_are_judged_alike_even_if_the_base_does_not_say_how(math_run, tmp_path):
    for name, scorer in (("base", ""), ("base_again", ""), ("grpo", "rules"), ("dph_js", "others")):
        path = tmp_path / f"{name}.0.meta.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"scorer": scorer}))
    with pytest.raises(UserError, match=r"Scorers with other settings judged .*dph_js.* and .*grpo.*"):
        compare(read_spec(math_run.write()))
