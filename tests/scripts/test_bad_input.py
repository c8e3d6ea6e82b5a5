"""Bad input: one sentence, exit code 2, and nothing is started or written."""

import pytest


def rejected(launcher, *arguments, **environment):
    finished = launcher.run(*arguments, **environment)
    assert finished.returncode == 2 and not finished.stdout
    [line] = finished.stderr.splitlines()
    assert line.startswith("Error: ") and launcher.started() is None
    assert not (launcher.folder / "out").exists()
    return line


@pytest.mark.parametrize(
    ("script", "given", "words"),
    [
        ("js_kl", "MODEL_PATH={}", "the model folder {} does not exist"),
        ("offline_sampling", "TRAIN_FILE={}", "data.train_files={} does not exist: the commands of docs/howto/data.md"),
        ("grpo", "launch.baseline_files=[{}]", "data.train_files={} does not exist: "),
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
