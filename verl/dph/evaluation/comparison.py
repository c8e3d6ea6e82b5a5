"""All methods of a report on all splits: read, checked against each other, measured."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from verl.dph.errors import UserError
from verl.dph.evaluation.bootstrap import Interval, paired_difference
from verl.dph.evaluation.prompt_metrics import prompt_metrics
from verl.dph.evaluation.samples import SampleSet, read_samples, require_same_n, require_same_prompts
from verl.dph.evaluation.spec import BASE, BASE_AGAIN, ReportSpec, SplitFiles
from verl.dph.evaluation.summary import summarise

SAMPLING_SETTINGS = ("temperature", "top_p", "top_k", "n", "seed", "max_response_length")


@dataclass(frozen=True)
class Comparison:
    """What the report is made from; the keys are method, then split."""

    spec: ReportSpec
    samples: dict[str, dict[str, SampleSet]]
    metrics: dict[str, dict[str, dict[str, np.ndarray]]]  # ... then the metric: [P] float64
    summaries: dict[str, dict[str, dict]]

    def difference(self, split: str, metric: str, first: str, second: str) -> Interval:
        """Paired difference first - second of a metric between two methods; None when one of them lacks it."""
        of_first, of_second = (self.metrics[method][split].get(metric) for method in (first, second))
        return None if of_first is None or of_second is None else paired_difference(of_first, of_second)


def compare(spec: ReportSpec) -> Comparison:
    """Reads every file of the specification and measures every method on every split.

    Raises:
        UserError: a file is faulty, or two methods do not hold the same prompts or equally many samples of each, or
            base_again is the same draw as base.
    """
    samples = {name: {} for name in spec.methods}
    metrics = {name: {} for name in spec.methods}
    for split in spec.splits:
        for name, method in spec.methods.items():
            files = method.splits[split]
            samples[name][split] = drawn = read_samples(files.samples, spec.styles)
            base = samples[BASE][split]
            require_same_prompts(drawn, base)
            require_same_n(drawn, base)
            _require_same_sampling(drawn, base)
            metrics[name][split] = prompt_metrics(drawn, _read_greedy(files, drawn, spec), base, spec.solved_in)
        if BASE_AGAIN in spec.methods:
            _require_independent(samples[BASE_AGAIN][split], samples[BASE][split])
    summaries = {
        name: {split: summarise(samples[name][split], metrics[name][split]) for split in spec.splits}
        for name in spec.methods
    }
    return Comparison(spec, samples, metrics, summaries)


def sampling_settings(samples: SampleSet) -> dict[str, object]:
    """The sampling settings in the `.meta.json` beside a samples file; empty when there is none."""
    path = Path(samples.path).with_suffix(".meta.json")
    if not path.exists():
        return {}
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}; sample {samples.path} again.") from error
    return {name: meta[name] for name in SAMPLING_SETTINGS if name in meta}


def _read_greedy(files: SplitFiles, samples: SampleSet, spec: ReportSpec) -> SampleSet | None:
    if files.greedy is None:
        return None
    greedy = read_samples(files.greedy, spec.styles)
    require_same_prompts(greedy, samples)
    if greedy.n != 1:
        raise UserError(f"{files.greedy} has {greedy.n} greedy answers a prompt: greedy decoding gives one; sample with n 1.")
    return greedy


def _require_same_sampling(samples: SampleSet, base: SampleSet) -> None:
    own, other = sampling_settings(samples), sampling_settings(base)
    for name in own.keys() & other.keys() - {"seed"}:
        if own[name] != other[name]:
            raise UserError(
                f"{samples.path} was sampled with {name} {own[name]} and {base.path} with {other[name]}: "
                "sample every method with the same settings."
            )


def _require_independent(again: SampleSet, base: SampleSet) -> None:
    if np.array_equal(again.correct, base.correct) and np.array_equal(again.style, base.style):
        raise UserError(
            f"{again.path} is the same draw as {base.path}, sample by sample: a noise floor needs an independent one; "
            "sample it with another seed."
        )
