"""The table of training metrics against the sources that log them."""

import re

from rl.common.training_metrics import training_metrics
from tests.programs import REPOSITORY

ALL = [metric["name"] for metrics in training_metrics().values() for metric in metrics]
# Sums from which update_metrics makes metrics.
INTERNAL = {"dph/accepted_share"}
LOGGED = re.compile(r'"(dph/[a-z_]+(?:/[a-z_{}]+)?)"')


def test_every_metric_in_the_sources_is_in_the_table_and_the_other_way_round():
    texts = [path.read_text() for path in (REPOSITORY / "verl" / "dph").rglob("*.py")]
    logged = {name for text in texts for name in LOGGED.findall(text)} - INTERNAL
    assert len(logged) > 15
    # <word> stands for any text.
    pattern = "|".join(re.sub("<[^>]+>", ".+", re.escape(name)) for name in ALL)
    assert not [name for name in logged if not re.fullmatch(pattern, name)]
    ours = [name for name in ALL if name.startswith("dph/") and "<" not in name]
    shared = "\n".join([*texts, (REPOSITORY / "rl" / "metrics" / "response_groups.py").read_text()])
    assert not [name for name in ours if name not in shared and f'"{name.removeprefix("dph/")}"' not in shared]
