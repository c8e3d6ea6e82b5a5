"""What a script checks and says before it starts a run."""

import pyarrow as pa
import pyarrow.parquet as pq


def test_a_variable_that_is_nearly_a_setting_and_one_of_another_method(launcher, files):
    settings = files | {"MAX_PROMT_LENGTH": "10", "MODEL_HOME": "/x", "SUCCESS_CAP": ".6"}
    finished = launcher.run("llama/grpo", "run", **settings)
    warnings = [line for line in finished.stderr.splitlines() if line.startswith("Warning: ")]
    assert warnings[0] == "Warning: MAX_PROMT_LENGTH is not a setting; did you mean MAX_PROMPT_LENGTH?"
    assert (
        warnings[1]
        == "Warning: SUCCESS_CAP is set, but grpo does not read it: forward_kl_cap, grpo_cap, js_kl_cap would."
    )
    assert finished.returncode == 0 and len(warnings) == 2 and launcher.started()


def test_a_batch_that_the_prompts_do_not_fill(launcher, files, tmp_path):
    prompts = tmp_path / "prompts.parquet"
    pq.write_table(pa.table({"id": range(27)}), prompts)
    settings = files | {"DEVICE": "cpu", "BASELINE_FILES": str(prompts), "MINI_BATCH_SIZE": "1"}
    for batch, code in (("27", 0), ("28", 2)):
        finished = launcher.run("llama/grpo", "run", "--dry-run", **settings | {"TRAIN_BATCH_SIZE": batch})
        assert finished.returncode == code, finished.stderr
    assert "Error: data.train_batch_size=28 is more than the 27 prompts of data.train_files" in finished.stderr


def test_a_node_that_only_scores_is_not_told_that_it_has_no_gpu(launcher, files, monkeypatch):
    monkeypatch.setattr("rl.configuration.run.has_gpu", lambda: False)
    nodes = {"NNODES": "3", "SCORER_NODES": "1", "MASTER_ADDR": "a", "RAY_AUTH_TOKEN": "secret", "DEVICE": ""}
    for rank, said in (("1", "No NVIDIA GPU was found: DEVICE=cpu.\n"), ("2", "")):
        finished = launcher.run("llama/js_kl", "run", **files | nodes | {"NODE_RANK": rank})
        assert finished.returncode == 0 and finished.stderr == said
