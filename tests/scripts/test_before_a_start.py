"""What a script checks and says before it starts a run."""

import pyarrow as pa
import pyarrow.parquet as pq


def test_a_batch_that_the_prompts_do_not_fill(launcher, files, tmp_path):
    prompts = tmp_path / "prompts.parquet"
    pq.write_table(pa.table({"id": range(27)}), prompts)
    words = ["device=cpu", f"launch.baseline_files=['{prompts}']", "actor_rollout_ref.actor.ppo_mini_batch_size=1"]
    for batch, code in (("27", 0), ("28", 2)):
        finished = launcher.run("llama/grpo", "run", *words, f"data.train_batch_size={batch}", "--dry-run", **files)
        assert finished.returncode == code, finished.stderr
    assert "Error: data.train_batch_size=28 is more than the 27 prompts of data.train_files" in finished.stderr


def test_a_node_that_only_scores_is_not_told_that_it_has_no_gpu(launcher, files, monkeypatch):
    monkeypatch.setattr("rl.configuration.run.has_gpu", lambda: False)
    nodes = {"NNODES": "3", "MASTER_ADDR": "a", "RAY_AUTH_TOKEN": "secret", "DEVICE": ""}
    for rank, said in (("1", "No NVIDIA GPU was found: DEVICE=cpu.\n"), ("2", "")):
        finished = launcher.run("llama/js_kl", "run", "launch.scorer_nodes=1", **files | nodes | {"NODE_RANK": rank})
        assert finished.returncode == 0 and finished.stderr == said
