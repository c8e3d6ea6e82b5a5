"""Checkpoints as verl's own manager writes them, on two ranks of FSDP2: what evaluation loads is the trained model."""

import copy
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.common.errors import UserError
from rl.common.fingerprint import model_hash, tokenizer_hash
from verl.dph import export
from verl.dph.sampling.checkpoint import check_model, model_folder

pytestmark = pytest.mark.timeout(900)

WORLD = 2
WORDS = ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(28))]  # 31 words: the ranks' parts differ in size


@pytest.fixture(scope="module")
def saved(tmp_path_factory, word_llama):
    """A folder with model/ and run/: a checkpoint of it at step 3, without weights in HF's format."""
    folder = tmp_path_factory.mktemp("saved")
    word_llama(folder / "model", WORDS, template="{{ messages[0]['content'] }}", tie_word_embeddings=True)
    actor = folder / "run" / "global_step_3" / "actor"
    writer = [sys.executable, str(Path(__file__).with_name("shard_writer.py"))]
    arguments = [str(WORLD), str(folder / "model"), str(actor), str(folder / "meeting")]
    ranks = [subprocess.Popen([*writer, str(rank), *arguments], stderr=subprocess.PIPE) for rank in range(WORLD)]
    for rank in ranks:
        _, errors = rank.communicate(timeout=400)
        assert rank.returncode == 0, errors.decode()[-4000:]
    (folder / "run" / "latest_checkpointed_iteration.txt").write_text("3")
    assert len(list(actor.glob("model_world_size_2_rank_*.pt"))) == WORLD and not list(actor.rglob("*.safetensors"))
    return folder


@pytest.fixture
def run(saved, tmp_path):
    """A copy of the run that a test may change."""
    return Path(shutil.copytree(saved / "run", tmp_path / "run"))


def test_shards_become_the_model_that_they_are_of(saved, run):
    merged = model_folder(str(run))
    assert Path(merged) == run / "global_step_3" / "actor" / "huggingface_merged"
    folders = (merged, saved / "model")
    policy, trained = (AutoModelForCausalLM.from_pretrained(folder, dtype="float32") for folder in folders)
    assert policy.state_dict().keys() == trained.state_dict().keys()
    assert all(torch.equal(value, trained.state_dict()[name]) for name, value in policy.state_dict().items())
    (weights,) = Path(merged).glob("*.safetensors")
    assert {tensor.dtype for tensor in load_file(weights).values()} == {torch.float32}
    assert model_hash(merged) and tokenizer_hash(merged)  # all that sampling asks of a model folder
    step = run / "global_step_3"
    assert model_folder(str(step)) == model_folder(str(step / "actor")) == merged


def test_shards_are_put_together_once_for_a_content(run):
    left = run / "global_step_3" / "actor" / "huggingface_merged.part"  # of a merge that was stopped
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    merged = Path(model_folder(str(run)))
    assert load_file(merged / "model.safetensors") and not left.exists()
    (merged / "marker").touch()
    assert (Path(model_folder(str(run))) / "marker").exists()
    template = merged.parent / "huggingface" / "chat_template.jinja"
    template.write_text("another")
    assert (Path(model_folder(str(run))) / template.name).read_text() == "another"
    (merged / "marker").touch()
    # Another content of the shards: the ranks' states of a model with other weights.
    shard = merged.parent / "model_world_size_2_rank_0.pt"
    state = torch.load(shard, weights_only=True)
    state["model.norm.weight"].to_local().fill_(7)
    torch.save(state, shard)
    assert not (Path(model_folder(str(run))) / "marker").exists()
    changed = load_file(merged / "model.safetensors")["model.norm.weight"]
    assert (changed[: len(changed) // 2] == 7).all() and not (changed[len(changed) // 2 :] == 7).any()


def test_models_that_need_no_merge_and_folders_that_are_not_a_model(saved, run, tmp_path):
    beside = run / "global_step_3" / "actor" / "huggingface"
    shutil.copy(saved / "model" / "model.safetensors", beside)
    assert model_folder(str(run)) == str(beside)
    for name in (str(saved / "model"), "meta-llama/Llama-3.1-8B-Instruct"):
        assert model_folder(name) == name
    with pytest.raises(UserError, match="neither weights .* nor a checkpoint of verl .* not a run folder"):
        model_folder(str(tmp_path))
    (run / "latest_checkpointed_iteration.txt").write_text("9")
    with pytest.raises(UserError, match="names global_step_9 as the newest checkpoint, but there is no"):
        model_folder(str(run))


@pytest.mark.parametrize("look", [model_folder, check_model])
def test_an_adapter_beside_its_base_model_is_no_model(look, tmp_path, word_llama):
    """verl's hf_model of a run with LoRA: transformers would find none of its names, and make random weights."""
    base = word_llama(tmp_path / "model", WORDS, template="{{ messages[0]['content'] }}")
    saved = tmp_path / "global_step_3" / "actor" / "huggingface"
    policy = get_peft_model(copy.deepcopy(base), LoraConfig())
    base.save_pretrained(saved, state_dict=policy.state_dict())
    merger = tmp_path / "merger"  # verl.model_merger writes the base model, and the adapter beside it
    base.save_pretrained(merger)
    policy.save_pretrained(merger / "lora_adapter")
    for name in (saved.parents[1], saved, merger):
        with pytest.raises(UserError, match="holds a LoRA adapter beside its base model, and no merged weights: merge"):
            look(str(name))
    with pytest.raises(UserError, match="holds a LoRA adapter"):  # as pre-sampling, store and training ask
        model_hash(merger)


@pytest.mark.parametrize("look", [model_folder, check_model])
def test_a_missing_shard(run, look):
    (run / "global_step_3" / "actor" / "model_world_size_2_rank_1.pt").unlink()
    with pytest.raises(UserError, match="written by 2 ranks, but model_world_size_2_rank_1.pt is missing .1 of 2."):
        look(str(run))


class Malicious:
    def __reduce__(self):
        return os.system, ("touch unpickled",)


def test_shards_run_no_code(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": Malicious()}, run / "global_step_3" / "actor" / "model_world_size_2_rank_0.pt")
    with pytest.raises(UserError, match="cannot be read without running code from it"):
        model_folder(str(run))
    assert not (tmp_path / "unpickled").exists()
    assert not (run / "global_step_3" / "actor" / "huggingface_merged").exists()


def test_a_policy_is_exported_whole_or_not_at_all(saved, run, tmp_path, capsys):
    (run / "global_step_3" / "manifest.json").write_text("{}")
    out = tmp_path / "my policy"
    others = [tmp_path / f"{out.name}.{name}" for name in ("part", "merged")]
    for other in others:
        other.mkdir()
        (other / "mine").touch()
    export.main([str(run), str(out)])
    assert all((other / "mine").exists() for other in others)
    said = capsys.readouterr().out
    assert f"Exported {run / 'global_step_3'} to {out} (" in said and f"vllm serve '{out}'\n" in said
    trained = load_file(saved / "model" / "model.safetensors")
    assert all(torch.equal(value, trained[name]) for name, value in load_file(out / "model.safetensors").items())
    assert AutoTokenizer.from_pretrained(out)("w1 w2")["input_ids"] == [4, 5]
    assert (out / "training_manifest.json").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "my policy",
        "my policy.merged",
        "my policy.part",
        "run",
    ]  # nor anything beside the shards
    assert not list(run.rglob("*merged*"))


def test_the_best_checkpoint_is_exported(saved, run, tmp_path):
    (run / "global_step_3").rename(run / "global_step_2")
    named = run / "best_checkpointed_iteration.txt"
    named.write_text("best")
    with pytest.raises(UserError, match="iteration.txt holds 'best', not a training step"):
        export.checkpoint_of(str(run), best=True)
    named.write_text("2")
    merged = model_folder(str(run / "global_step_2"), False)  # of an evaluation
    assert (Path(merged) / "merged_from.json").is_file()
    export.main([str(run), str(tmp_path / "exported"), "--best"])
    weights = load_file(tmp_path / "exported" / "model.safetensors")
    assert not (tmp_path / "exported" / "merged_from.json").exists()
    trained = load_file(saved / "model" / "model.safetensors")
    assert all(torch.equal(value, trained[name]) for name, value in weights.items())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{run}", "{run}"], "{run} exists: name another folder, or delete it."),
        (["{run}/new", "{out}"], "{run}/new is a run without a checkpoint: set trainer.save_freq when you train"),
        (["{run}", "{out}", "--best"], "{run} has no best_checkpointed_iteration.txt: no validation was at a step"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(run, tmp_path, capsys, arguments, sentence):
    names = {"run": run, "out": tmp_path / "exported"}
    (run / "new").mkdir()
    (run / "new" / "dph_run.json").write_text("{}")
    with pytest.raises(SystemExit) as stop:
        export.main([word.format(**names) for word in arguments])
    assert stop.value.code == 2 and sentence.format(**names) in capsys.readouterr().err
    assert not (tmp_path / "exported").exists()
