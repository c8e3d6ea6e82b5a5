"""The folder of a training run."""

from rl.data.training_run import NEWEST, resumes_at


def test_where_a_stopped_run_goes_on(tmp_path):
    assert resumes_at(tmp_path) == "There is no checkpoint yet: it starts at step 1."
    (tmp_path / NEWEST).write_text("40")
    assert resumes_at(tmp_path) == "It goes on after step 40."
