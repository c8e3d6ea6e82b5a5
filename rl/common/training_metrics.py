"""What training logs: the name, definition and title of every metric, and where it is shown (training_metrics.json).

docs/reference/settings.md, the training section of report.html and the terminal (console_filter) take them from here.
Definitions use d = log pi_theta - log pi_ref, the log-ratio of a token, and u = exp(d). Unless a definition says
otherwise, a metric is a mean over the D_pef tokens of a mini-batch, averaged over the step.
"""

import json
from functools import cache
from pathlib import Path


@cache
def training_metrics() -> dict[str, list[dict[str, str]]]:
    """{heading: metrics}.

    Each has a name, as the loggers have it (<word> stands for any text), and a definition. Some have the title of their
    curve in the report, and some, as console, the word before their value in a step's line on the terminal.
    """
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def drawn_titles() -> dict[str, str]:
    """{name: title} of the metrics that the report draws, in the table's order."""
    return {m["name"]: m["title"] for metrics in training_metrics().values() for m in metrics if "title" in m}
