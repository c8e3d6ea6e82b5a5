"""The program `dph watch`: follow a training run in the terminal by the metrics that its file logger writes."""

import argparse
import re
import sys
import time
from math import sqrt
from pathlib import Path

from rl.common.duration import duration
from rl.common.training_metrics import WATCHED, titles
from rl.data.training_run import CONSOLE
from rl.evaluation.run_folder import RECENT_STEPS, RunFolder, read_run

LOOK_SECONDS = 2.0
BARS, WIDTH = "▁▂▃▄▅▆▇█", 40  # of a sparkline: its levels, and characters
CLEAR = "\x1b[H\x1b[2J"  # the terminal
_PASS_AT_K = re.compile(r"dph/(?:val/(.+)/)?pass@(\d+)")
# Alerts. From this mean share on, a style counts as the only one.
ONE_STYLE = 0.95
# Standard errors by which the keep rate must be below the initial policy's.
BEYOND_CHANCE = 2
# A run is silent after this many times its longest recent step, and a minute.
LONG_STEP, GRACE_SECONDS = 5, 60


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Follow a training run: its state, time left, alerts, and sparklines of Pass@k and\n"
        f"{', '.join(titles(WATCHED).values())}.\n"
        "It reads RUN/metrics/*.jsonl and changes nothing; Ctrl-C ends it, not the run.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's folder, $OUTPUT_DIR/NAME of the scripts")
    parser.add_argument("--once", action="store_true", help="print one frame and exit, as without a terminal")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """
    Returns:
        The exit code, 0 also for a run that has not begun or has ended.

    Raises:
        UserError: there is no such run, or it logs no metrics.
    """
    options = parser().parse_args(arguments)
    follows = sys.stdout.isatty() and not options.once
    try:
        while True:
            run = read_run(options.run)
            sys.stdout.write(f"{CLEAR if follows else ''}{frame(run)}\n")
            sys.stdout.flush()
            if run.has_ended or not follows:
                return 0
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        return 0


def frame(run: RunFolder) -> str:
    """The state of the run, its curves (trend, first and last value, step of the last one) and alerts."""
    shown = curves(run)
    width = max(map(len, shown), default=0)
    lines = [state(run)]
    if shown:
        lines.append(f"{'':<{width}}  {'':<{WIDTH}}  {'first':>9}  {'last':>9}  {'step':>6}")
    for title, values in shown.items():
        numbers = [*values.values()]
        ends = f"{numbers[0]:>9.3g}  {numbers[-1]:>9.3g}  {[*values][-1]:>6}"
        lines.append(f"{title:<{width}}  {sparkline(numbers):<{WIDTH}}  {ends}")
    return "\n".join([*lines, *(f"! {alert}" for alert in alerts(run))])


def state(run: RunFolder) -> str:
    """One line: the step, and the time of a step and of what is left, or that the run has ended."""
    if run.step is None:
        return f"{run.folder} has not logged a step yet: its set-up takes minutes, and {CONSOLE} there has its output."
    if run.has_ended:
        return f"{run.folder} has ended: {run.progress}."
    parts = [f"{run.folder}: {run.progress}"]
    if recent := run.recent_seconds:
        mean = sum(recent) / len(recent)
        parts.append(f"{duration(mean)} a step")
        if run.total_steps is not None:
            left = max(0.0, (run.total_steps - run.step) * mean - run.silent_seconds)
            until = time.strftime("%H:%M", time.localtime(time.time() + left))
            parts.append(f"{duration(left)} left (estimated; until {until})")
    return f"{', '.join(parts)}."


def curves(run: RunFolder) -> dict[str, dict[int, float]]:
    """{title: values by step}: the watched metrics, then Pass@1 and the largest Pass@k of rollouts and validations."""
    shown = titles(WATCHED)
    by_source: dict[str, dict[int, str]] = {}
    for name in run.log:
        if found := _PASS_AT_K.fullmatch(name):
            by_source.setdefault(f"{found[1]} " if found[1] else "", {})[int(found[2])] = name
    for source, of_k in sorted(by_source.items()):
        shown |= {of_k[k]: f"{source}Pass@{k}" for k in sorted({min(of_k), max(of_k)})}
    return {title: run.log[metric] for metric, title in shown.items() if metric in run.log}


def sparkline(values: list[float], width: int = WIDTH) -> str:
    """At most `width` characters: means of equally many values, between the lowest and the highest mean."""
    count = min(width, len(values))
    cuts = [len(values) * i // count for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in zip(cuts, cuts[1:], strict=False)]
    low, high = min(means), max(means)
    if low == high:
        return BARS[len(BARS) // 2] * count
    return "".join(BARS[min(int((mean - low) / (high - low) * len(BARS)), len(BARS) - 1)] for mean in means)


def alerts(run: RunFolder) -> list[str]:
    """What a person should look at, one sentence each."""
    return [found for check in (_one_style, _retention, _failed_rollouts, _silence) if (found := check(run))]


def _one_style(run: RunFolder) -> str | None:
    """By means over the last steps, because one small step may well have one style."""
    prefix = "dph/style/"
    recent = {name.removeprefix(prefix): _recent(run, name) for name in run.log if name.startswith(prefix)}
    for name, values in recent.items():
        if (share := sum(values) / len(values)) >= ONE_STYLE:
            return f"One style holds {share:.0%} of the correct responses of the last {len(values)} steps: {name}."
    return None


def _retention(run: RunFolder) -> str | None:
    """The keep rate of step 0 (trainer.val_before_train) is the initial policy's own, the noise floor."""
    rates = run.log.get("dph/keep_rate", {})
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
    where = [f"{sum(in_steps):.0f} in the last {len(in_steps)} steps"] if any(in_steps) else []
    where += [f"{in_validation:.0f} in the last validation"] if in_validation else []
    return f"Rollouts failed, {' and '.join(where)}: {run.folder / CONSOLE} has their errors." if where else None


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
