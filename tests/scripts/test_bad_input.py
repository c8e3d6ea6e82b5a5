"""Bad input: one sentence, exit code 2, and nothing is started or written."""

import sys

import pytest


def rejected(launcher, *arguments, **environment):
    return sentence_of(launcher, launcher.run(*arguments, **environment))


def sentence_of(launcher, finished):
    assert finished.returncode == 2 and not finished.stdout
    [line] = finished.stderr.splitlines()
    assert line.startswith("Error: ") and launcher.started() is None
    assert not (launcher.folder / "out").exists()
    return line


def test_no_verl(launcher, files):
    """A Python without its packages, beside a checkout's own folder verl, and one that does not exist."""
    (launcher.folder / "verl").mkdir()
    bare = launcher.folder / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    for python in (str(bare), "no-python"):
        line = sentence_of(launcher, launcher.script("llama/grpo", "run", **files, PYTHON=python))
        assert f"{python} has no verl: activate the environment (make install, " in line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trainer.total_training_steps=two"], "trainer.total_training_steps='two' must be a valid integer"),
        (["launch.explored=both"], "launch.explored='both' must be 'exp' or 'all'"),
        (["launch.ray_port=70000"], "launch.ray_port=70000 must be less than or equal to 65535"),
        (["0.2", "010"], "launch.seed='010' must be a valid integer"),
        (["-0.1"], "actor_rollout_ref.actor.sft_loss_coeff=-0.1 must be greater than or equal to 0"),
    ],
)
def test_wrong_values(launcher, files, words, said):
    """A dry run rejects them too, as the run would."""
    for dry_run in ([], ["--dry-run"]):
        assert rejected(launcher, "llama/js_kl", "run", *words, *dry_run, **files).startswith(f"Error: {said}.")


@pytest.mark.parametrize(
    ("script", "given", "words"),
    [
        ("js_kl", "MODEL_PATH={}", "the model folder {} does not exist"),
        ("offline_sampling", "TRAIN_FILE={}", "data.train_files={} does not exist: the commands of docs/howto/data.md"),
        ("grpo", "launch.baseline_files=[{}]", "data.train_files={} does not exist: "),
        ("dapo", "VAL_FILES={}", "data.val_files={} does not exist: the commands of docs/howto/data.md write it"),
        ("forward_kl", "SFT_PT={}", "data.sft_pt={} does not exist: run dph store"),
    ],
)
def test_missing_files(launcher, files, script, given, words):
    missing = f"{launcher.folder}/not/there"
    name, _, value = given.format(missing).partition("=")
    if name.isupper():
        line = rejected(launcher, f"qwen/{script}", "run", **files | {name: value})
    else:
        line = rejected(launcher, f"qwen/{script}", "run", given.format(missing), **files)
    assert words.format(missing) in line


def test_odd_names_are_found(launcher, files):
    """Names with what Hydra's lists and quotes are made of."""
    for name in ("a, [b] (c).parquet", "it is.parquet", "~x.parquet"):
        odd = launcher.folder / name
        odd.touch()
        lists = [f"data.val_files=['{odd}','{files['VAL_FILES']}']", f"data.val_files=[{files['VAL_FILES']}]"]
        for override in (f"data.val_files='{odd}'", *(lists if "," not in name else lists[1:])):
            finished = launcher.run("llama/js_kl", "run", override, **files | {"SFT_PT": str(odd)})
            assert finished.returncode == 0, finished.stderr
            assert launcher.started()


def test_overrides_and_names_on_the_hub_are_what_counts(launcher, files):
    """A file that an override replaces need not be there; one that it names must."""
    absent = files | {"MODEL_PATH": "organisation/model"}
    words = ["launch.train_wrong=/not/there.parquet", f"data.train_files={files['TRAIN_FILE']}"]
    finished = launcher.run("llama/js_kl", "run", *words, **absent)
    assert finished.returncode == 0, finished.stderr
    assert launcher.started().config().actor_rollout_ref.model.path == "organisation/model"
    finished = launcher.run("llama/js_kl", "run", "data.sft_pt=/not/there.pt", **files)
    assert finished.returncode == 2 and "data.sft_pt=/not/there.pt does not exist" in finished.stderr
