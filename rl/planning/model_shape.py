"""Shapes of models, from their config.json, and the number of parameters that follows from them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rl.common.errors import UserError

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")


@dataclass(frozen=True)
class ModelShape:
    """A dense decoder of the families of FAMILIES.

    Attributes:
        name: as messages call it.
        family: config.json's model_type.
        hidden, layers, heads, kv_heads, head_dim, intermediate, vocabulary: d, L, h, g, c, m, V of
            docs/howto/plan.md.
        tied: the output layer is the embedding.
        qkv_bias, output_bias, mlp_bias: whether the projections to queries, keys and values, that of the attention's
            output, and those of the MLP have biases.
    """

    name: str
    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False

    @property
    def attention_width(self) -> int:
        """a = h c, numbers per token of the queries."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """k = g c, numbers per token of the keys, and of the values."""
        return self.kv_heads * self.head_dim

    @property
    def embedding_parameters(self) -> int:
        """V d, of the embedding, and of the output layer."""
        return self.vocabulary * self.hidden

    @property
    def layer_parameters(self) -> int:
        """N_l of docs/howto/plan.md: matrices, biases and norms of one layer."""
        d, a, k, m = self.hidden, self.attention_width, self.kv_width, self.intermediate
        matrices = d * a + 2 * d * k + a * d + 3 * d * m
        biases = self.qkv_bias * (a + 2 * k) + self.output_bias * d + self.mlp_bias * (2 * m + d)
        norms = 2 * d + (2 * self.head_dim if self.family == "qwen3" else 0)
        return matrices + biases + norms

    @property
    def parameters(self) -> int:
        """N of docs/howto/plan.md."""
        return self.layers * self.layer_parameters + self.hidden + self.embedding_parameters * (1 if self.tied else 2)


def model_shape(path: str) -> ModelShape:
    """The shape of a model: a folder with config.json, or the name of a model that is in KNOWN.

    Raises:
        UserError: neither, or what a plan cannot model.
    """
    folder, name = Path(path).expanduser(), path.rstrip("/").rsplit("/", 1)[-1]
    config = folder / "config.json"
    if config.is_file():
        try:
            return shape_of(json.loads(config.read_text(encoding="utf-8")), name)
        except ValueError as error:
            raise UserError(f"{config} is no JSON: {error}.") from error
    known = KNOWN.get(_plain(name))
    if known is None:
        raise UserError(f"the shape of {path} is not known here: give the model's folder, which has its config.json.")
    return replace(known, name=name)


def shape_of(config: Mapping[str, Any], name: str) -> ModelShape:
    """The shape in the content of a config.json.

    Raises:
        UserError: what a plan cannot model: experts, quantised weights, another family, missing sizes.
    """
    family = config.get("model_type", "")
    if family not in FAMILIES:
        raise UserError(f"{name} is of the family '{family}', which a plan does not model, only {', '.join(FAMILIES)}.")
    if config.get("quantization_config"):
        raise UserError(f"{name} has quantised weights, which a plan does not model, and training cannot use.")
    if missing := [key for key in _SIZES if not isinstance(config.get(key), int)]:
        raise UserError(f"the config.json of {name} gives no {' and no '.join(missing)}.")
    heads = config["num_attention_heads"]
    attention_bias = bool(config.get("attention_bias", False))
    return ModelShape(
        name=name,
        family=family,
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or (128 if family == "qwen3" else config["hidden_size"] // heads),
        intermediate=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        tied=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=family == "qwen2" or (attention_bias and family != "mistral"),
        output_bias=attention_bias and family in ("llama", "qwen3"),
        mlp_bias=bool(config.get("mlp_bias", False)) and family == "llama",
    )


def _plain(name: str) -> str:
    """A name without what does not change the shape."""
    words = name.lower().replace("meta-", "").split("-")
    return "-".join(word for word in words if word not in ("instruct", "base", "math", "coder"))


# hidden, layers, heads, kv_heads, head_dim, intermediate and vocabulary: the paper's models, and others of their kind.
_SIZES_OF = {
    "Llama-3-8B": (4096, 32, 32, 8, 128, 14336, 128256),
    "Llama-3.1-8B": (4096, 32, 32, 8, 128, 14336, 128256),
    "Llama-3.2-1B": (2048, 16, 32, 8, 64, 8192, 128256),
    "Llama-3.2-3B": (3072, 28, 24, 8, 128, 8192, 128256),
    "Qwen2.5-0.5B": (896, 24, 14, 2, 64, 4864, 151936),
    "Qwen2.5-1.5B": (1536, 28, 12, 2, 128, 8960, 151936),
    "Qwen2.5-3B": (2048, 36, 16, 2, 128, 11008, 151936),
    "Qwen2.5-7B": (3584, 28, 28, 4, 128, 18944, 152064),
    "Qwen2.5-14B": (5120, 48, 40, 8, 128, 13824, 152064),
    "Qwen2.5-32B": (5120, 64, 40, 8, 128, 27648, 152064),
    "Qwen3-0.6B": (1024, 28, 16, 8, 128, 3072, 151936),
    "Qwen3-1.7B": (2048, 28, 16, 8, 128, 6144, 151936),
    "Qwen3-4B": (2560, 36, 32, 8, 128, 9728, 151936),
    "Qwen3-8B": (4096, 36, 32, 8, 128, 12288, 151936),
    "Qwen3-14B": (5120, 40, 40, 8, 128, 17408, 151936),
    "Qwen3-32B": (5120, 64, 64, 8, 128, 25600, 151936),
}
# OmniSQL is Qwen2.5-Coder, trained further.
_SIZES_OF |= {f"OmniSQL-{size}": _SIZES_OF[f"Qwen2.5-{size}"] for size in ("7B", "14B", "32B")}
_FAMILIES_OF = {"Llama": "llama", "Qwen2.5": "qwen2", "OmniSQL": "qwen2", "Qwen3": "qwen3"}
_TIED = ("Llama-3.2", "Qwen2.5-0.5B", "Qwen2.5-1.5B", "Qwen2.5-3B", "Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B")


def _shape(name: str) -> ModelShape:
    family = _FAMILIES_OF[name.partition("-")[0]]
    return ModelShape(name, family, *_SIZES_OF[name], tied=name.startswith(_TIED), qkv_bias=family == "qwen2")


# By name without organisation and without what _plain drops.
KNOWN = {_plain(name): _shape(name) for name in _SIZES_OF}
