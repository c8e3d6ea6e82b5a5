"""What training logs: the name, definition and title of every metric, and where it is shown (training_metrics.json).

docs/reference/settings.md, the training section of report.html and the terminal (console_filter) take them from here.
Definitions use d = log pi_theta - log pi_ref, the log-ratio of a token, and u = exp(d). Unless a definition says
otherwise, a metric is a mean over the D_pef tokens of a mini-batch, averaged over the step.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class TrainingMetric:
    """
    Attributes:
        name: as the loggers have it; <word> stands for any text.
        title: of its curve in the report; empty: it is not drawn.
        console: the word before its value in a step's line on the terminal; empty: it is not there.
    """

    name: str
    definition: str
    title: str = ""
    console: str = ""


@cache
def training_metrics() -> dict[str, list[TrainingMetric]]:
    """{heading: metrics}."""
    content = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return {heading: [TrainingMetric(**entry) for entry in entries] for heading, entries in content.items()}


def drawn_titles() -> dict[str, str]:
    """{name: title} of the metrics that the report draws, in the table's order."""
    return {m.name: m.title for metrics in training_metrics().values() for m in metrics if m.title}
