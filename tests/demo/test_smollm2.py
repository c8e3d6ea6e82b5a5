"""The whole road with the pretrained model, at the size of a smoke test: two steps on word problems."""

import json
import math
from dataclasses import replace

import pytest

from rl.data.sample_file import read_samples
from rl.demo import experiment
from rl.demo.models import SMOLLM2
from rl.demo.run import Demo
from rl.evaluation.analysis.training_log import read_training_log

# The launch scripts' variables for so few problems.
SIZES = {"TRAIN_BATCH_SIZE": "2", "MINI_BATCH_SIZE": "2", "ROLLOUT_N": "4", "SFT_BATCH_SIZE": "2"}
# After a shorter fine-tuning few problems are solved in 7 of 8 samples: all correct samples are rehearsed.
MORE = {
    "model": ["--steps=10"],
    "split": ["--threshold=2"],
    "store": ["data.sft_coverage=solved", "data.sft_responses_per_prompt=all"],
}


class Small(Demo):
    def stages(self):
        return [replace(stage, command=[*stage.command, *MORE.get(stage.name, [])]) for stage in super().stages()]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_steps_of_dph_js_and_a_report(smollm2, tmp_path, monkeypatch):
    for name, value in SIZES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(experiment, "EVAL_SAMPLES", 16)
    model = replace(SMOLLM2, train=32, in_domain=3, out_of_domain=2)
    demo = Small(tmp_path, ["dph_js"], steps=2, seed=1, model=model, model_path=str(smollm2))
    assert demo.run() == []

    samples = list(read_samples(tmp_path / "data" / "generate_data" / "0.jsonl"))
    assert len(samples) == 32 * 8
    # A response ends with <|im_end|>, or is cut at the limit of 64 tokens.
    ended = [record for record in samples if not record.truncated]
    assert len(ended) > 0.8 * len(samples) and {record.response_ids[-1] for record in ended} == {2}
    assert 0.02 < sum(record.acc for record in samples) / len(samples) < 0.9

    log = read_training_log(tmp_path / "runs" / "dph_js" / "metrics")
    for metric in ("critic/score/mean", "dph/divergence"):
        assert {*log[metric]} == {1, 2} and all(math.isfinite(value) for value in log[metric].values())
    report = json.loads((tmp_path / "report.json").read_text())
    assert {"base", "base_again", "dph_js"} <= {*report} and report["dph_js"]["in_domain"]["n"] == 16
    assert {*report["base"]["in_domain"]["style_share"]} == {"Compute", "First", "Let", "Others"}
