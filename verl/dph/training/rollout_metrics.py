"""Metrics of a training step's rollouts and of a validation, from what the reward function returned."""

import json
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from rl.common.errors import UserError
from rl.common.outcomes import OUTCOMES, is_correct
from rl.data.questions import answer_kind
from rl.metrics.response_groups import Response, mean_majority, mean_pass_at_k, style_metrics

VALIDATION = "dph/val/"  # + the data source
ACCURACY = "dph/val_accuracy"


def response_of(data_source: str, score: float, info: Mapping[str, Any]) -> Response:
    """A response as its metrics need it.

    Args:
        score: the row's reward, which a reward manager may have shaped.
        info: what else the reward function returned.
    """
    accuracy, pred = info.get("acc"), info.get("pred")
    try:
        kind = answer_kind(data_source)
    except UserError:  # the user's own reward function has its own data sources
        kind = "task"
    return Response(
        correct=is_correct(float(score if accuracy is None else accuracy)),
        kind=kind,
        pred=pred if isinstance(pred, str) else None,
        outcome=info.get("outcome") or "",
    )


def rollout_metrics(
    responses: Iterable[tuple[str, Response]], n: int, dropped: Iterable[tuple[str, Response]]
) -> dict[str, float]:
    """dph/pass@k, dph/style_entropy, dph/distinct_structures and dph/style/<name> of a training step.

    Args:
        responses: (prompt, response).
        n: responses per prompt; some prompts have fewer because rollouts failed.
        dropped: the responses of groups that dynamic sampling dropped or drew beyond the batch. They count in Pass@k,
            which would otherwise describe the undecided prompts only.
    """
    groups = _by_prompt(responses)
    counts = _counts(groups) + _counts(_by_prompt(dropped))
    return {f"dph/{name}": value for name, value in (mean_pass_at_k(counts, n) | style_metrics(groups)).items()}


def validation_metrics(
    data_sources: Sequence[str],
    prompts: Sequence[str],
    infos: Mapping[str, Sequence[Any]],
    order: Iterable[str],
    n: int,
) -> dict[str, float]:
    """Pass@k, maj@n and styles of each data source of a validation (dph/val/<data source>/<metric>), and ACCURACY.

    Responses that were not judged, because their reference cannot be evaluated, are left out and counted.

    verl's own mean accuracy (mean@n) is over the prompts with n responses, and n is the largest number of a prompt. So
    a failed rollout takes its prompt out, and if every prompt has one, the metric has another name.

    Args:
        data_sources, prompts: of each response that was scored.
        infos: columns of what the reward function returned, with verl's "reward"; None where a response has no value.
        order: the prompts in the order of the data. Styles are measured on the first prompts only, which are then the
            same in every validation.
        n: responses per prompt.
    """
    place = {prompt: number for number, prompt in enumerate(order)}
    rows, gold_errors = range(len(prompts)), infos.get("gold_error")
    judged = [row for row in rows if not (gold_errors and gold_errors[row])]
    by_source: dict[str, list[tuple[str, Response]]] = {}
    accuracies: dict[str, dict[str, list[float]]] = {}  # by data source and prompt
    for row in sorted(judged, key=lambda row: place[prompts[row]]):
        source, info = data_sources[row], {name: column[row] for name, column in infos.items()}
        by_source.setdefault(source, []).append((prompts[row], response_of(source, info["reward"], info)))
        accuracy = info["reward"] if info.get("acc") is None else info["acc"]
        accuracies.setdefault(source, {}).setdefault(prompts[row], []).append(float(accuracy))
    of_sources = [fmean(map(fmean, of_prompts.values())) for of_prompts in accuracies.values()]
    metrics: dict[str, float] = {"dph/unjudged_validation_rollouts": len(rows) - len(judged)}
    metrics |= {ACCURACY: fmean(of_sources)} if of_sources else {}
    for source, responses in by_source.items():
        groups = _by_prompt(responses)
        found = mean_pass_at_k(_counts(groups), n) | mean_majority(groups, n) | style_metrics(groups)
        metrics |= {f"{VALIDATION}{source}/{name}": value for name, value in found.items()}
    return metrics


def reward_metrics(infos: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Outcomes of a step's responses and the effort of scoring them.

    Args:
        infos: the reward_extra_info of each sample; samples of another reward function are left out.

    Returns:
        dph/outcome/<outcome>: the share of the samples with it. dph/scorer/*: the step's requests, retries, busy_waits
        and infra_errors; seconds_mean and seconds_max from a response to its score; and healthy_servers, the fewest
        that a client saw. Nothing without samples of our reward function.
    """
    ours = [info for info in infos if "scorer" in info and "outcome" in info]
    if not ours:
        return {}
    outcomes = [info["outcome"] for info in ours]
    efforts = [json.loads(info["scorer"]) for info in ours]
    column = {name: [effort[name] for effort in efforts] for name in efforts[0]}
    metrics = {f"dph/outcome/{outcome}": outcomes.count(outcome) / len(ours) for outcome in OUTCOMES}
    for name in ("requests", "retries", "busy_waits", "infra_errors"):
        metrics[f"dph/scorer/{name}"] = sum(column[name])
    metrics["dph/scorer/seconds_mean"] = sum(column["seconds"]) / len(ours)
    metrics["dph/scorer/seconds_max"] = max(column["seconds"])
    metrics["dph/scorer/healthy_servers"] = min(column["healthy_servers"])
    return metrics


def _by_prompt(responses: Iterable[tuple[str, Response]]) -> list[list[Response]]:
    groups: dict[str, list[Response]] = {}
    for prompt, response in responses:
        groups.setdefault(prompt, []).append(response)
    return list(groups.values())


def _counts(groups: Iterable[Sequence[Response]]) -> list[tuple[int, int]]:
    """(responses, correct responses) of each prompt."""
    return [(len(group), sum(response.correct for response in group)) for group in groups]
