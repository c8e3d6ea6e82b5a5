"""The number of parameters is that of the model that transformers builds from the same config.json."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from rl.common.errors import UserError
from rl.planning.model_shape import model_shape, shape_of

SMALL = dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=80, vocab_size=101)
# Published counts, and what is special about each: tied embeddings, GQA, Qwen's biases, head_dim apart from d / h.
PUBLISHED = {
    "meta-llama/Llama-3.1-8B-Instruct": 8_030_261_248,
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "seeklhy/OmniSQL-32B": 32_763_876_352,
    "Qwen/Qwen2.5-Math-7B": 7_615_616_512,
    "Qwen/Qwen2.5-0.5B": 494_032_768,
    "Qwen/Qwen3-4B": 4_022_468_096,
    "Qwen/Qwen3-8B": 8_190_735_360,
}


def count(config: dict) -> int:
    """Of transformers' model, on the meta device; tied weights once."""
    config = AutoConfig.for_model(**config)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    "config",
    [
        dict(model_type="llama", num_key_value_heads=2),
        dict(model_type="llama", num_key_value_heads=4, tie_word_embeddings=True, head_dim=20),
        dict(model_type="llama", num_key_value_heads=2, attention_bias=True, mlp_bias=True),
        dict(model_type="mistral", num_key_value_heads=2, head_dim=12),
        dict(model_type="qwen2", num_key_value_heads=2),
        dict(model_type="qwen2", num_key_value_heads=1, tie_word_embeddings=True),
        dict(model_type="qwen3", num_key_value_heads=2, head_dim=16, tie_word_embeddings=True),
        dict(model_type="qwen3", num_key_value_heads=2, head_dim=16, attention_bias=True),
    ],
    ids=lambda config: " ".join(map(str, config.values())),
)
def test_parameters_as_transformers_counts_them(config):
    assert shape_of(SMALL | config, "small").parameters == count(SMALL | config)


def test_a_folder_s_config_counts_and_not_its_name(tmp_path):
    folder = tmp_path / "Llama-3.1-8B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SMALL | {"model_type": "llama", "num_key_value_heads": 2}))
    assert model_shape(f"{folder}/").vocabulary == 101
    # By its name, where the folder is not: a plan on another machine than the run's.
    assert model_shape("/elsewhere/Llama-3.1-8B-Instruct/").parameters == PUBLISHED["meta-llama/Llama-3.1-8B-Instruct"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_known_names(name):
    shape = model_shape(name)
    assert shape.parameters == PUBLISHED[name] and shape.name == name.split("/")[1]


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


def test_an_unknown_name_and_a_broken_file(tmp_path):
    with pytest.raises(UserError, match="the shape of me/my-model is not known here: give the model's folder"):
        model_shape("me/my-model")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="is no JSON"):
        model_shape(str(tmp_path))
