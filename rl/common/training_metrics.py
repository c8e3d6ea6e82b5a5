"""What training logs: the name, definition and title of every metric, and where it is shown (training_metrics.json).

docs/reference/settings.md, the training section of report.html and the terminal (console_filter) take them from here.
Definitions use d = log pi_theta - log pi_ref, the log-ratio of a token, and u = exp(d). Unless a definition says
otherwise, a metric is a mean over the D_pef tokens of a mini-batch, averaged over the step.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_WORD = "<[^>]+>"  # any text, in a name
# Metrics that begin so are decided by the clock and the machine, and differ between two equal runs.
MEASURED = ("timing_s/", "timing_per_token_ms/", "perf/", "actor/perf/", "dph/scorer/")


@dataclass(frozen=True)
class TrainingMetric:
    """
    Attributes:
        name: as the loggers have it; <word> stands for any text.
        title: of its curve, with the <word>s of the name; empty: the name.
        drawn: whether it is among the first of the report's training figures; the page has all.
        console: the word before its value in a step's line on the terminal; empty: it is not there.
    """

    name: str
    definition: str
    title: str = ""
    drawn: bool = False
    console: str = ""


@cache
def training_metrics() -> dict[str, list[TrainingMetric]]:
    """{heading: metrics}."""
    content = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return {heading: [TrainingMetric(**entry) for entry in entries] for heading, entries in content.items()}


def drawn_titles() -> dict[str, str]:
    """{name: title} of the metrics that are drawn first, in the table's order."""
    return {m.name: m.title or m.name for metrics in training_metrics().values() for m in metrics if m.drawn}


def title_of(name: str) -> str:
    """The title of a logged metric, with the name's own text for each <word>; the name if the table has no title."""
    for metric, found in _entries_of(name):
        if title := metric.title:
            for word, text in zip(re.findall(_WORD, metric.name), found.groups(), strict=True):
                title = title.replace(word, text)
            return title
    return name


def _entries_of(name: str) -> Iterator[tuple[TrainingMetric, re.Match[str]]]:
    """The table's entries of a logged metric; the match has a group for each <word>."""
    for metric in (metric for metrics in training_metrics().values() for metric in metrics):
        if found := re.fullmatch(re.sub(_WORD, "(.+)", re.escape(metric.name)), name):
            yield metric, found
