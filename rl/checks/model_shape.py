"""The sizes of a model, from its config.json, and its number of parameters."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl.common.errors import UserError
from rl.common.model_files import cached_config

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")


@dataclass(frozen=True)
class ModelShape:
    """A dense decoder of one of FAMILIES.

    Attributes:
        name: as messages call it: the folder, or the last part of its name on the Hub.
        hidden, layers, heads, kv_heads, head_dim, intermediate, vocabulary: sizes.
        tied: the output layer is the embedding.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool = False

    @property
    def attention_width(self) -> int:
        """Numbers per token of the queries."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Numbers per token of the keys, and of the values."""
        return self.kv_heads * self.head_dim

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embedding; the output layer has as many."""
        return self.vocabulary * self.hidden

    @property
    def layer_parameters(self) -> int:
        """Parameters of a layer's matrices and norms; biases, below 0.1 %, are left out."""
        width = 2 * self.attention_width + 2 * self.kv_width + 3 * self.intermediate
        return self.hidden * width + 2 * self.hidden

    @property
    def in_words(self) -> str:
        """Its name and number of parameters, such as Llama-3.1-8B-Instruct, 8.03B parameters."""
        count, unit = (self.parameters / 1e9, "B") if self.parameters >= 1e8 else (self.parameters / 1e6, "M")
        return f"{self.name}, {count:.2f}{unit} parameters"

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters + self.hidden + self.embedding_parameters * (1 if self.tied else 2)


def model_shape(path: str) -> ModelShape:
    """The shape of a model, from config.json in its folder or in the Hub's cache, or else by its name.

    Raises:
        UserError: the shape is not known here, or a plan cannot model it.
    """
    name = path.rstrip("/").rsplit("/", 1)[-1]
    config = Path(path).expanduser() / "config.json"
    found = config if config.is_file() else cached_config(path)
    if found is not None:
        try:
            return shape_of(json.loads(found.read_text(encoding="utf-8")), path if found == config else name)
        except ValueError as error:
            raise UserError(f"{found} is not JSON: {error}.") from error
    sizes = _KNOWN.get(_plain(name))
    if sizes is None:
        raise UserError(f"the shape of {path} is not known here: give the model's folder, which has its config.json.")
    return ModelShape(name, *sizes, tied=_plain(name).startswith(_TIED))


def parameters(model: str) -> int:
    """A model's number of parameters, counted in its safetensors files, or else computed from its config.json.

    Raises:
        UserError: a file is damaged, or the model's shape is not known.
    """
    return parameters_in_files(model) or model_shape(model).parameters


def parameters_in_files(model: str) -> int:
    """The number of parameters in a model's safetensors files; 0 without one."""
    from huggingface_hub import parse_local_safetensors_file_metadata  # slow to import
    from huggingface_hub.errors import SafetensorsParsingError

    found: dict[str, int] = {}
    for file in Path(model).expanduser().glob("*.safetensors"):
        try:
            tensors = parse_local_safetensors_file_metadata(file).tensors
        except (OSError, SafetensorsParsingError) as error:
            raise UserError(f"{file} is not a safetensors file: download the model again.") from error
        found |= {name: tensor.parameter_count for name, tensor in tensors.items()}
    return sum(found.values())


def shape_of(config: Mapping[str, Any], name: str) -> ModelShape:
    """The shape in the content of a config.json.

    Raises:
        UserError: the model has experts, quantised weights or another family, or sizes are missing.
    """
    family = config.get("model_type", "")
    if family not in FAMILIES:
        raise UserError(f"{name} is of the family '{family}', which a plan does not model: {', '.join(FAMILIES)} only.")
    if config.get("quantization_config"):
        raise UserError(f"{name} has quantised weights, which training cannot use.")
    if missing := [key for key in _SIZES if not isinstance(config.get(key), int)]:
        raise UserError(f"the config.json of {name} gives no {' and no '.join(missing)}.")
    heads = config["num_attention_heads"]
    return ModelShape(
        name=name,
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or (128 if family == "qwen3" else config["hidden_size"] // heads),
        intermediate=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        tied=bool(config.get("tie_word_embeddings", False)),
    )


def _plain(name: str) -> str:
    """A name without the words that do not change the shape."""
    words = name.lower().replace("meta-", "").split("-")
    return "-".join(word for word in words if word not in ("instruct", "base", "math", "coder"))


# hidden, layers, heads, kv_heads, head_dim, intermediate and vocabulary by plain name: the paper's models and others of
# their families. OmniSQL is Qwen2.5-Coder, trained further.
_KNOWN = {
    "llama-3.1-8b": (4096, 32, 32, 8, 128, 14336, 128256),
    "llama-3.2-1b": (2048, 16, 32, 8, 64, 8192, 128256),
    "llama-3.2-3b": (3072, 28, 24, 8, 128, 8192, 128256),
    "qwen2.5-1.5b": (1536, 28, 12, 2, 128, 8960, 151936),
    "qwen2.5-3b": (2048, 36, 16, 2, 128, 11008, 151936),
    "qwen2.5-7b": (3584, 28, 28, 4, 128, 18944, 152064),
    "qwen2.5-14b": (5120, 48, 40, 8, 128, 13824, 152064),
    "qwen2.5-32b": (5120, 64, 40, 8, 128, 27648, 152064),
    "qwen3-4b": (2560, 36, 32, 8, 128, 9728, 151936),
    "qwen3-8b": (4096, 36, 32, 8, 128, 12288, 151936),
    "qwen3-14b": (5120, 40, 40, 8, 128, 17408, 151936),
}
_KNOWN |= {f"omnisql-{size}": _KNOWN[f"qwen2.5-{size}"] for size in ("7b", "14b", "32b")}
_TIED = ("llama-3.2", "qwen2.5-1.5b", "qwen2.5-3b", "qwen3-4b")
