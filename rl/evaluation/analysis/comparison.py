"""Read, check and measure all methods of a report on all splits."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rl.common.errors import UserError
from rl.common.fingerprint import short
from rl.data.sample_file import HASHES
from rl.evaluation.analysis.prompt_metrics import prompt_metrics, summarise, summarise_group
from rl.evaluation.analysis.questions import Questions, are_those_sampled, read_questions
from rl.evaluation.analysis.samples import (
    JudgedSamples,
    SampleSet,
    read_judged,
    read_sample_set,
    require_comparable,
    styles_are_announced,
)
from rl.evaluation.spec import BASE, BASE_AGAIN, ReportSpec, SplitFiles
from rl.metrics.bootstrap import Interval, mean_interval
from rl.metrics.pass_at_k import pass_at_k
from rl.metrics.styles import BY_PREFIX, BY_STRUCTURE

# The sampling settings that a report shows; all of its methods have the same.
COMMON_SETTINGS = ("temperature", "top_p", "top_k", "n", "max_response_length")

# {method: {split: {training step: {metric: [value, low, high]}}}}; the metrics are greedy and pass@solved_in
Progress = dict[str, dict[str, dict[int, dict[str, Interval | None]]]]


@dataclass(frozen=True)
class Comparison:
    """Everything that a report is made from, by method and split."""

    spec: ReportSpec
    samples: dict[str, dict[str, SampleSet]]
    metrics: dict[str, dict[str, dict[str, np.ndarray]]]  # {method: {split: {metric: [P] float64}}}
    summaries: dict[str, dict[str, dict]]
    questions: dict[str, Questions]  # by split, if its data files are known


def compare(spec: ReportSpec) -> Comparison:
    """Read every file of the specification and measure every method on every split."""
    spec = _with_styles_by(spec)
    samples: dict[str, dict[str, SampleSet]] = {name: {} for name in spec.methods}
    metrics: dict[str, dict[str, dict[str, np.ndarray]]] = {name: {} for name in spec.methods}
    summaries: dict[str, dict[str, dict]] = {name: {} for name in spec.methods}
    greedy: dict[tuple[str, str], JudgedSamples | None] = {}
    for split in spec.splits:
        for name, method in spec.methods.items():
            files = method.splits[split]
            samples[name][split] = drawn = _read_samples(spec, files)
            require_comparable(drawn, samples[BASE][split])
            _require_same_model(drawn, samples[name][spec.splits[0]])
            greedy[name, split] = _read_greedy(files, drawn)
        if BASE_AGAIN in spec.methods:
            _require_second_draw(samples[BASE_AGAIN][split], samples[BASE][split])
        _require_one_scorer(of[split] for of in samples.values())
        _require_one_scorer(greedy[name, split] or samples[name][split] for name in spec.methods)
    questions = _read_questions(spec, samples[BASE])
    for split in spec.splits:
        groups = questions[split].few_valued() if split in questions else {}
        # All methods vote in the same way.
        by_result = all(samples[name][split].result is not None for name in spec.methods)
        if not by_result:
            for name in (name for name in spec.methods if samples[name][split].result is not None):
                samples[name][split] = _read_samples(spec, spec.methods[name].splits[split], by_syntax=True)
        for name in spec.methods:
            drawn, base = samples[name][split], samples[BASE][split]
            of_prompts = prompt_metrics(drawn, greedy[name, split], base, spec.solved_in, by_result)
            of_groups = {
                key: {value: summarise_group(of_prompts, members) for value, members in values.items()}
                for key, values in groups.items()
            }
            metrics[name][split] = of_prompts
            summaries[name][split] = summarise(drawn, of_prompts, by_result) | {"groups": of_groups}
    return Comparison(spec, samples, metrics, summaries, questions)


def _read_samples(spec: ReportSpec, files: SplitFiles, by_syntax: bool = False) -> SampleSet:
    return read_sample_set(files.samples, spec.styles, spec.styles_by or BY_PREFIX, by_syntax)


def _with_styles_by(spec: ReportSpec) -> ReportSpec:
    """The specification with `styles_by`: if it is left out, the base's first samples decide."""
    if spec.styles_by or not spec.styles:
        return spec
    announced = styles_are_announced(spec.methods[BASE].splits[spec.splits[0]].samples, spec.styles)
    return spec.model_copy(update={"styles_by": BY_PREFIX if announced else BY_STRUCTURE})


def _read_questions(spec: ReportSpec, samples: dict[str, SampleSet]) -> dict[str, Questions]:
    found = {}
    for split, files in spec.questions.items():
        found[split] = read_questions(files, samples[split].ids, spec.groups)
        if not are_those_sampled(files, samples[split].metadata.data_files):
            raise UserError(
                f"{', '.join(map(str, files))} changed since {samples[split].path} was drawn, and its answers may "
                f"differ from those that the samples were judged by: evaluate again, or remove {split} from questions."
            )
    for key in spec.groups:
        if not any(key in questions.groups for questions in found.values()):
            raise UserError(f"The report's groups have {key}, which no question has in its extra_info: correct it.")
    return found


def _read_greedy(files: SplitFiles, samples: JudgedSamples) -> JudgedSamples | None:
    """The greedy responses of the same model to the same prompts; None if the specification names none."""
    if files.greedy is None:
        return None
    greedy = read_judged(files.greedy)
    require_comparable(greedy, samples, besides=("temperature", "top_p", "top_k", "n"))
    _require_same_model(greedy, samples)
    for name, value in {"n": 1, "temperature": 0}.items():
        if (found := getattr(greedy.metadata, name)) != value:
            raise UserError(f"{files.greedy} was sampled with {name} {found}: greedy responses need {value}.")
    return greedy


def _require_same_model(samples: JudgedSamples, others: JudgedSamples) -> None:
    if _models_differ(samples, others):
        raise UserError(
            f"{samples.path} and {others.path} belong to one method but to two models ({samples.metadata.model} and "
            f"{others.metadata.model}); sample both from the same checkpoint."
        )


def _models_differ(samples: JudgedSamples, others: JudgedSamples) -> bool:
    """In weights, tokenizer or config.json."""
    return any(getattr(samples.metadata, name) != getattr(others.metadata, name) for name in HASHES)


def _require_one_scorer(judged: Iterable[JudgedSamples]) -> None:
    """Raise UserError if scorers with other settings judged two of these, as far as the files name theirs."""
    named = [(of.path, of.metadata.scorer) for of in judged if of.metadata.scorer]
    for path, scorer in named[1:]:
        first, of_first = named[0]
        if scorer != of_first:
            raise UserError(
                f"Scorers with other settings judged {path} and {first} (verdict_sha256 {short(scorer)} and "
                f"{short(of_first)}): judge both with one configuration of the scorer."
            )


def _require_second_draw(again: SampleSet, base: SampleSet) -> None:
    if _models_differ(again, base):
        raise UserError(
            f"{again.path} belongs to another model than {base.path}: {BASE_AGAIN} is a second draw of the base."
        )
    if again.metadata.seed == base.metadata.seed:
        raise UserError(
            f"{again.path} is the same draw as {base.path}, both with seed {base.metadata.seed}: a noise floor needs "
            "an independent one; sample it with another seed."
        )


def read_progress(comparison: Comparison) -> Progress:
    """Metrics of every method with checkpoints, by training step; step 0 is the base, unless it is a run."""
    spec = comparison.spec
    wanted = ("greedy", f"pass@{spec.solved_in}")
    found: Progress = {}
    for name, method in spec.methods.items():
        for step, checkpoint in sorted(method.checkpoints.items(), key=lambda item: int(item[0])):
            for split, files in checkpoint.splits.items():
                if split not in found.setdefault(name, {}):
                    of_base = comparison.metrics[BASE][split]
                    first = {m: mean_interval(of_base[m]) for m in wanted if m in of_base}
                    found[name][split] = {} if name == BASE else {0: first}
                found[name][split][int(step)] = _of_checkpoint(comparison, split, files)
    return found


def _of_checkpoint(comparison: Comparison, split: str, files: SplitFiles) -> dict[str, Interval | None]:
    spec, base = comparison.spec, comparison.samples[BASE][split]
    samples = read_judged(files.samples)
    require_comparable(samples, base)
    greedy = _read_greedy(files, samples)
    _require_one_scorer([*(of[split] for of in comparison.samples.values()), samples, greedy or samples])
    solved = pass_at_k(samples.correct.sum(axis=1), samples.n, spec.solved_in)
    values = {} if greedy is None else {"greedy": mean_interval(greedy.correct[:, 0].astype(float))}
    return values | {f"pass@{spec.solved_in}": mean_interval(solved)}
