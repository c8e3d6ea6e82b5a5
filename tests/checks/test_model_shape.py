"""A model has as many parameters as the one that transformers builds from the same config.json."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from rl.checks.model_shape import model_shape, parameters, shape_of
from rl.common.errors import UserError
from rl.common.fingerprint import model_hash

SMALL = dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=80, vocab_size=101)


def count(config: dict) -> int:
    """transformers' model on the meta device, without biases and Qwen3's norms of heads; tied weights count once."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    small = ("bias", "q_norm.weight", "k_norm.weight")
    return sum(value.numel() for name, value in model.named_parameters() if not name.endswith(small))


@pytest.mark.parametrize(
    "config",
    [
        dict(model_type="llama", num_key_value_heads=4, tie_word_embeddings=True, head_dim=20),
        dict(model_type="mistral", num_key_value_heads=2, head_dim=12),
        dict(model_type="qwen2", num_key_value_heads=2),
        dict(model_type="qwen3", num_key_value_heads=2, head_dim=16, tie_word_embeddings=True),
    ],
    ids=lambda config: config["model_type"],
)
def test_parameters_as_transformers_counts_them(config):
    assert shape_of(SMALL | config, "small").parameters == count(SMALL | config)


def test_a_folder_s_config_counts_and_not_its_name(tmp_path):
    folder = tmp_path / "Llama-3.1-8B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SMALL | {"model_type": "llama", "num_key_value_heads": 2}))
    assert model_shape(f"{folder}/").vocabulary == 101
    (folder / "config.json").write_text("{")
    with pytest.raises(UserError, match="is not JSON"):
        model_shape(str(folder))


@pytest.mark.parametrize(
    ("name", "published"),
    {
        "/elsewhere/Llama-3.1-8B-Instruct/": 8_030_261_248,  # where its folder is not
        "seeklhy/OmniSQL-32B": 32_763_876_352,
        "Qwen/Qwen2.5-Math-7B": 7_615_616_512,
        "Qwen/Qwen3-4B": 4_022_468_096,
    }.items(),
)
def test_known_names(name, published):
    assert model_shape(name).parameters == pytest.approx(published, rel=1e-3)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (dict(model_type="qwen3_moe", num_experts=128), "x is of the family 'qwen3_moe', which a plan does not model"),
        (dict(model_type="llama", quantization_config={"bits": 4}), "x has quantised weights"),
        (dict(model_type="llama", vocab_size=None), "the config.json of x gives no vocab_size"),
    ],
)
def test_what_is_not_modelled(config, words):
    with pytest.raises(UserError, match=words):
        shape_of(SMALL | config, "x")
    with pytest.raises(UserError, match="the shape of me/my-model is not known here: give the model's folder"):
        model_shape("me/my-model")


def test_weights_that_were_not_downloaded_are_no_safetensors_file(tmp_path):
    """A clone without Git LFS: the first eight characters were read as a length, which no memory holds."""
    pointer = tmp_path / "model.safetensors"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n")
    with pytest.raises(UserError, match="model.safetensors is not a safetensors file: download the model again"):
        parameters(str(tmp_path))
    pointer.unlink()
    pointer.symlink_to(tmp_path / "gone")
    with pytest.raises(UserError, match="model.safetensors cannot be read .No such file or directory.: download"):
        model_hash(tmp_path)
