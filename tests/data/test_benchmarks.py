"""The table of data sets."""

from rl.data.benchmarks import DATASETS
from rl.data.questions import answer_kind


def test_data_sets_are_told_apart():
    """Prepared files hold these numbers, which count on in the table's order."""
    blocks = [block for data in DATASETS.values() for block in data.id_blocks.values()]
    assert blocks == list(range(1, len(blocks) + 1))
    assert (DATASETS["bird"].id_blocks["train"], DATASETS["bird_mini_pg"].id_blocks["dev"]) == (1, 17)
    assert all(answer_kind(name) == data.kind for name, data in DATASETS.items())
