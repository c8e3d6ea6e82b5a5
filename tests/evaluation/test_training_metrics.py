"""The table of training metrics against the sources that log them."""

import re
from pathlib import Path

from rl.evaluation.training_metrics import ALL

REPOSITORY = Path(__file__).parents[2]
# Sums from which update_metrics makes metrics.
INTERNAL = {"dph/log_ratio_histogram", "dph/unbounded_weight", "dph/removed_weight"}
LOGGED = re.compile(r'"(dph/[a-z_]+(?:/[a-z_{}]+)?)"')


def test_every_metric_in_the_sources_is_in_the_table_and_the_other_way_round():
    texts = [path.read_text() for path in (REPOSITORY / "verl" / "dph").rglob("*.py")]
    logged = {name for text in texts for name in LOGGED.findall(text)} - INTERNAL
    assert len(logged) > 15
    unknown = [name for name in logged if not any(metric.matches(name) for metric in ALL)]
    assert not unknown
    ours = [metric.name for metric in ALL if metric.name.startswith("dph/") and "<" not in metric.name]
    shared = "\n".join([*texts, (REPOSITORY / "rl" / "metrics" / "response_groups.py").read_text()])
    assert not [name for name in ours if name not in shared and f'"{name.removeprefix("dph/")}"' not in shared]


def test_a_name_with_a_placeholder_stands_for_any_text():
    found = {name: [m.name for m in ALL if m.matches(name)] for name in ("dph/pass@16", "dph/val/bird/pass@4", "dph/x")}
    assert found == {
        "dph/pass@16": ["dph/pass@<k>"],
        "dph/val/bird/pass@4": ["dph/val/<data source>/<metric>"],
        "dph/x": [],
    }
