"""Which programs need a scorer."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl.checks.files import asks_scorer
from rl.configuration.arguments import run_of
from rl.launch.__main__ import node_of


@pytest.mark.parametrize(
    ("method", "words", "asks"),
    [
        ("offline_sampling", ["data.train_files=[{folder}/judged.parquet]"], True),
        ("offline_sampling", ["data.train_files=[{folder}/prompts.parquet]"], False),
        ("offline_sampling", ["data.train_files=[{folder}/missing.parquet]"], True),
        ("get_correct_data_tensor", [], True),
        ("get_correct_data_tensor", ["data.sft_coverage=all"], False),
        ("recipe", ["mine", "data.train_files=[{folder}/prompts.parquet]"], True),
    ],
)
def test_a_scorer_is_started_only_for_a_program_that_asks_it(method, words, asks, tmp_path, monkeypatch):
    monkeypatch.delenv("DPH_SCORER", raising=False)
    columns = {"id": [1], "prompt": [[{"role": "user", "content": "?"}]]}
    pq.write_table(pa.table(columns), tmp_path / "prompts.parquet")
    pq.write_table(pa.table(columns | {"reward_model": [{"ground_truth": "1"}]}), tmp_path / "judged.parquet")
    run = run_of(method, [*(word.format(folder=tmp_path) for word in words), "device=cpu"])
    assert asks_scorer(run.composed, run.program) == asks
    assert (node_of(run) is not None) == asks
