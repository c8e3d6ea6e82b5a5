"""Prompts to split."""

from pathlib import Path

import pytest

from tests.sample_files import math_row, write_parquet


@pytest.fixture
def data(tmp_path) -> Path:
    """Rows that are not in the order of their ids."""
    return write_parquet(tmp_path / "train.parquet", *(math_row(id) for id in (30, 10, 20, 40)))
