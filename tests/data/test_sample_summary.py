from rl.data.sample_summary import summarize
from tests.sample_files import math_row, write_parquet, write_samples


def test_the_summary_of_a_file(tmp_path):
    data = write_parquet(tmp_path / "test.parquet", math_row(1), math_row(2))
    samples = write_samples(tmp_path / "0.jsonl", data, {1: [1, 0, 0, 1], 2: [0, 0, 0, 0]})
    lines = str(summarize(samples)).splitlines()
    assert [line.split()[:2] for line in lines[1:6]] == [["0", "1"], ["1", "0"], ["2", "1"], ["3", "0"], ["4", "0"]]
    # Pass@2 of two right ones of four is 1 - 1/6.
    assert lines[6] == "Pass@1 0.2500  Pass@2 0.4167  Pass@4 0.5000  (8 samples of 2 prompts)"
    assert lines[7:] == ["truncated 0.0%, 3.5 tokens per response", "outcomes: mismatch 6, match 2"]
