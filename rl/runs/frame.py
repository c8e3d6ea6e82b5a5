"""One frame of `dph watch`: how far the run is, its curves as sparklines, and alerts."""

import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rl.common.duration import duration
from rl.runs.alerts import alerts
from rl.runs.run_folder import KEEP_RATE, RunFolder

if TYPE_CHECKING:
    from rich.console import RenderableType

BARS, ASCII_BARS = "▁▂▃▄▅▆▇█", "_.-=*#"
WIDTH = 40  # characters of a sparkline
_OF_VALIDATION = re.compile(r"dph/val/(.+)/pass@(\d+)")


def curves(run: RunFolder) -> dict[str, dict[int, float]]:
    """{title: values by step} of what the run logs, in the order of the frame."""
    largest_k = _largest(int(name.removeprefix("dph/pass@")) for name in run.log if name.startswith("dph/pass@"))
    titles = {"reward": "critic/rewards/mean", "Pass@1": "dph/pass@1"}
    if largest_k > 1:
        titles[f"Pass@{largest_k}"] = f"dph/pass@{largest_k}"
    titles |= {"KL on D_pef": "dph/kl_ref_policy", "style entropy": "dph/style_entropy", "retention": KEEP_RATE}
    validated = [match for match in map(_OF_VALIDATION.fullmatch, run.log) if match]
    for source in dict.fromkeys(match[1] for match in validated):
        largest = _largest(int(match[2]) for match in validated if match[1] == source)
        titles |= {f"{source} Pass@{k}": f"dph/val/{source}/pass@{k}" for k in sorted({1, largest})}
    return {title: run.log[metric] for title, metric in titles.items() if metric in run.log}


def sparkline(values: list[float], width: int = WIDTH, bars: str = BARS) -> str:
    """At most `width` characters, each the mean of as many values, between the lowest and the highest mean."""
    count = min(width, len(values))
    cuts = [len(values) * i // count for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in zip(cuts, cuts[1:], strict=False)]
    low, high = min(means), max(means)
    if low == high:
        return bars[len(bars) // 2] * count
    return "".join(bars[min(int((mean - low) / (high - low) * len(bars)), len(bars) - 1)] for mean in means)


def status(run: RunFolder) -> str:
    """One line: the step, and the time of a step and of what is left, or that the run has ended."""
    of_total = "" if run.total_steps is None else f" of {run.total_steps}"
    if run.step is None:
        return f"{run.folder} has not logged a step yet: its set-up takes minutes, and log.txt there has its output."
    if run.has_ended:
        return f"{run.folder} has ended: step {run.step}{of_total}."
    said = f"{run.folder}: step {run.step}{of_total}"
    if run.step_seconds is not None:
        said += f", {duration(run.step_seconds)} a step"
    if (left := run.seconds_left) is not None:
        said += (
            f", {duration(left)} left (estimated; until {time.strftime('%H:%M', time.localtime(time.time() + left))})"
        )
    return f"{said}."


def frame(run: RunFolder, *, ascii_only: bool = False) -> "RenderableType":
    """What rich prints."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("", "trend"):
        table.add_column(name, no_wrap=True)
    for name in ("first", "last", "step"):
        table.add_column(name, justify="right", no_wrap=True)
    for title, values in curves(run).items():
        numbers = [*values.values()]
        line = sparkline(numbers, bars=ASCII_BARS if ascii_only else BARS)
        table.add_row(title, Text(line, style="cyan"), f"{numbers[0]:.3g}", f"{numbers[-1]:.3g}", str([*values][-1]))
    parts: list[RenderableType] = [Text(status(run), style="bold")]
    parts += [table] if table.row_count else []
    return Group(*parts, *(Text(f"! {sentence}", style="bold red") for sentence in alerts(run)))


def _largest(numbers: Iterable[int]) -> int:
    return max(numbers, default=0)
