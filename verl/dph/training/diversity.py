"""Diversity of a step's rollouts and of validation: from verl's rows to the metrics of rl.metrics.response_groups.

Nothing is sampled for them. They are of the policy that sampled the responses: in the asynchronous trainers that may be
some steps old (training/off_policy/trajectory_staleness).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rl.common.errors import UserError
from rl.common.outcomes import is_correct
from rl.data.questions import answer_kind
from rl.metrics.response_groups import Response, mean_majority, mean_pass_at_k, style_metrics

VALIDATION = "dph/val/"  # + the data source


def response_of(data_source: str, score: float, info: Mapping[str, Any]) -> Response:
    """
    Args:
        score: the row's reward, which a reward manager may have shaped.
        info: what the reward function returned beside it.
    """
    accuracy, pred = info.get("acc"), info.get("pred")
    return Response(
        correct=is_correct(float(score if accuracy is None else accuracy)),
        kind=_kind(data_source),
        pred=pred if isinstance(pred, str) else None,
        outcome=info.get("outcome") or "",
    )


def rollout_metrics(
    responses: Iterable[tuple[str, Response]], n: int, filtered: Mapping[float, int]
) -> dict[str, float]:
    """dph/pass@k, dph/style_entropy, dph/distinct_structures and dph/style/<name> of a training step.

    Args:
        responses: (prompt, response).
        n: responses per prompt, but for rollouts that failed.
        filtered: groups that dynamic sampling left out because all their rewards are equal, by that reward. They count
            in Pass@k, which would else be that of undecided prompts; what they answered is gone.
    """
    groups = _by_prompt(responses)
    counts = [(len(group), sum(response.correct for response in group)) for group in groups]
    for reward, number in filtered.items():
        counts += [(n, n if is_correct(reward) else 0)] * number
    return {f"dph/{name}": value for name, value in (mean_pass_at_k(counts, n) | style_metrics(groups)).items()}


def validation_metrics(
    data_sources: Sequence[str],
    prompts: Sequence[str],
    infos: Mapping[str, Sequence[Any]],
    order: Iterable[str],
    n: int,
) -> dict[str, float]:
    """The same of each data source of a validation, with maj@n: dph/val/<data source>/<metric>.

    Args:
        data_sources, prompts: of each response that was scored.
        infos: columns of what the reward function returned, with verl's "reward"; None where a response has no value.
        order: of the prompts in the data: where styles are of some prompts, these are the same in every validation.
        n: responses per prompt.
    """
    place = {prompt: number for number, prompt in enumerate(order)}
    by_source: dict[str, list[tuple[str, Response]]] = {}
    for row in sorted(range(len(prompts)), key=lambda row: place[prompts[row]]):
        source, info = data_sources[row], {name: column[row] for name, column in infos.items()}
        by_source.setdefault(source, []).append((prompts[row], response_of(source, info["reward"], info)))
    metrics: dict[str, float] = {}
    for source, responses in by_source.items():
        groups = _by_prompt(responses)
        counts = [(len(group), sum(response.correct for response in group)) for group in groups]
        found = mean_pass_at_k(counts, n) | mean_majority(groups, n) | style_metrics(groups)
        metrics |= {f"{VALIDATION}{source}/{name}": value for name, value in found.items()}
    return metrics


def _by_prompt(responses: Iterable[tuple[str, Response]]) -> list[list[Response]]:
    groups: dict[str, list[Response]] = {}
    for prompt, response in responses:
        groups.setdefault(prompt, []).append(response)
    return list(groups.values())


def _kind(data_source: str) -> str:
    try:
        return answer_kind(data_source)
    except UserError:  # a reward function of the user's own has data sources of its own
        return "task"
