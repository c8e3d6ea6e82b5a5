"""The table of data sets."""

from rl.data.benchmarks import DATASETS
from rl.data.questions import answer_kind


def test_data_sets_are_told_apart():
    """Prepared files hold these numbers."""
    assert {name: data.id_blocks for name, data in DATASETS.items()} == {
        "bird": {"train": 1, "dev": 2, "test": 3},
        "spider": {"train": 4, "dev": 5, "test": 6},
        "math_dapo": {"train": 7},
        "aime24": {"test": 8},
        "aime25": {"test": 9},
        "amc23": {"test": 10},
        "math500": {"test": 11},
        "olympiadbench": {"test": 12},
        "minerva_math": {"test": 13},
        "college_math": {"test": 14},
        "gsm8k": {"test": 15},
        "bird_mini": {"dev": 16},
        "bird_mini_pg": {"dev": 17},
        "spider_syn": {"train": 18, "dev": 19},
        "spider_dk": {"dev": 20},
        "spider_realistic": {"dev": 21},
        "spider2_lite": {"dev": 22},
    }
    assert all(answer_kind(name) == data.kind for name, data in DATASETS.items())
