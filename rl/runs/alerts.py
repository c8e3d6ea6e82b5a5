"""What a person should look at in a run, one sentence each."""

from math import sqrt

from rl.common.duration import duration
from rl.data.training_run import CONSOLE
from rl.metrics.response_groups import STYLE_SHARE
from rl.runs.run_folder import KEEP_RATE, RECENT_STEPS, RunFolder

STYLE_PREFIX = f"dph/{STYLE_SHARE}"
ONE_STYLE = 0.95
# Standard errors by which the keep rate must be below that of the initial policy.
BEYOND_CHANCE = 2
# A step may take this many times the longest recent one, and a minute, before its silence is reported.
LONG_STEP, GRACE_SECONDS = 5, 60


def alerts(run: RunFolder) -> list[str]:
    return [sentence for check in (_one_style, _retention, _failed_rollouts, _silence) if (sentence := check(run))]


def _one_style(run: RunFolder) -> str | None:
    """Means over the last steps: one small step may well have one style."""
    recent = {
        metric.removeprefix(STYLE_PREFIX): _recent(run, metric) for metric in run.log if metric.startswith(STYLE_PREFIX)
    }
    shares = {name: sum(values) / len(values) for name, values in recent.items()}
    name = max(shares, key=shares.__getitem__, default=None)
    if name is None or shares[name] < ONE_STYLE:
        return None
    return f"One style holds {shares[name]:.0%} of the correct responses of the last {len(recent[name])} steps: {name}."


def _retention(run: RunFolder) -> str | None:
    """The keep rate of step 0 is the initial policy's own, the noise floor (trainer.val_before_train)."""
    rates = run.log.get(KEEP_RATE, {})
    if 0 not in rates or len(rates) < 2:
        return None
    floor, (step, rate) = rates[0], [*rates.items()][-1]
    prompts = run.log.get("dph/keep_prompts", {}).get(step, 1.0)
    if floor - rate <= BEYOND_CHANCE * sqrt((floor * (1 - floor) + rate * (1 - rate)) / prompts):
        return None
    return (
        f"Retention is below the noise floor by more than chance: the keep rate is {rate:.3g} in step {step}, and was "
        f"{floor:.3g} before training ({prompts:.0f} prompts)."
    )


def _failed_rollouts(run: RunFolder) -> str | None:
    in_steps = _recent(run, "dph/failed_rollouts")
    in_validation = sum(_recent(run, "dph/failed_validation_rollouts")[-1:])
    said = [f"{sum(in_steps):.0f} in the last {len(in_steps)} steps"] if any(in_steps) else []
    said += [f"{in_validation:.0f} in the last validation"] if in_validation else []
    return f"Rollouts failed, {' and '.join(said)}: {run.folder / CONSOLE} has their errors." if said else None


def _silence(run: RunFolder) -> str | None:
    recent = run.recent_seconds
    if not recent or run.has_ended or run.silent_seconds < LONG_STEP * max(recent) + GRACE_SECONDS:
        return None
    return (
        f"No step for {duration(run.silent_seconds)}, and none of the last {len(recent)} took more than "
        f"{duration(max(recent))}: the run may have stopped; {run.folder / CONSOLE} has its output."
    )


def _recent(run: RunFolder, metric: str) -> list[float]:
    return [*run.log.get(metric, {}).values()][-RECENT_STEPS:]
