"""The estimate of a CPU run's memory, against numbers computed by hand and against what torch keeps."""

import json

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from rl.checks import main_memory
from rl.checks.main_memory import layer_bytes, need_of
from rl.checks.model_shape import shape_of
from rl.common.errors import UserError
from rl.configuration.arguments import run_of
from tests.checks.conftest import bytes_kept_for_backward, gb

# config.json of SmolLM2-135M-Instruct.
SMOLLM2 = {
    "model_type": "llama",
    "vocab_size": 49_152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "tie_word_embeddings": True,
}
N = 134_515_008
PROGRAMS, ALL = 2.15, 6.86  # GB


@pytest.fixture
def values(plain_environment, monkeypatch, tmp_path):
    """Every setting of the pretrained demo's run, of a method with a folder for its model."""
    (tmp_path / "config.json").write_text(json.dumps(SMOLLM2))
    monkeypatch.setenv("SETTINGS", "smollm2_math")
    monkeypatch.setenv("MODEL_PATH", str(tmp_path))

    def of(method: str, *words: str, device: str = "cpu_bf16") -> tuple[str, dict]:
        run = run_of(method, [*words, f"device={device}"])
        return run.program, run.values

    return of


def test_a_run_of_smollm2(values):
    """134,515,008 parameters; 512 tokens a micro-batch; 64 samples of at most 192 tokens a step."""
    need = need_of(*values("js_kl", "run"))
    assert need.model.parameters == N and gb({"all": need.bytes}, 2) == {"all": ALL}
    assert gb(need.parts, 2) == {
        "programs": PROGRAMS,
        "parameters": 0.54,
        "Adam's moments": 1.08,
        "gradients": 0.54,
        "activations": 0.56,  # 512 x 30 x (16 x 576 + 8 x (576 + 1536) + 6 x 9 x 192)
        "logits": 0.15,  # 3 x 2 x 512 x 49,152
        "FSDP in flight": 0.15,  # 4 x 49,152 x 576 + 10 x 3,540,096
        "rollout's weights": 0.27,
        "keys and values": 0.28,  # 2 x 2 x 192 x 30 x 192 x 64
        "sampling": 0.08,  # 26 x 49,152 x 64
        "weights in transfer": 0.44,  # 2 N, and three times the embedding, 2 x 49,152 x 576
        "gaps of the heap": 0.62,  # a tenth
    }


def test_what_other_runs_hold(values):
    exact = gb(need_of(*values("js_kl", "run", device="cpu")).parts, 2)
    # 512 x 30 x (24 x 576 + 16 x (576 + 1536)), with sdpa
    assert exact["activations"] == 0.73 and exact["rollout's weights"] == 0.54
    for setting in ("actor_rollout_ref.actor.use_kl_loss", "algorithm.use_kl_in_reward"):
        assert need_of(*values("js_kl", "run", f"{setting}=true")).parts["reference model"] == 4 * N
    store = need_of(*values("get_correct_data_tensor")).parts
    assert "logits" in store and not {"gradients", "activations", "Adam's moments"} & store.keys()
    # 256 rows at a time, verl's default.
    samples = {"rollout's weights": 0.27, "keys and values": 1.13, "sampling": 0.33, "gaps of the heap": 0.39}
    assert gb(need_of(*values("offline_sampling")).parts, 2) == {"programs": PROGRAMS} | samples
    of_two = need_of(*values("offline_sampling", "trainer.n_gpus_per_node=2")).parts  # each rank batches as many
    assert of_two["keys and values"] == 2 * need_of(*values("offline_sampling")).parts["keys and values"]
    one, two = (need_of(*values("js_kl", "run", f"trainer.n_gpus_per_node={ranks}")).parts for ranks in (1, 2))
    assert two["parameters"] == 4 * N and two["rollout's weights"] == 2 * 2 * N
    assert two["activations"] == 2 * one["activations"] and two["keys and values"] == one["keys and values"]


@pytest.mark.parametrize(("attention", "row"), [("sdpa", 0), ("eager", 32)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_activations_are_what_torch_keeps_of_a_layer(dtype, attention, row):
    sizes = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=160, vocab_size=1)
    config = LlamaConfig(**sizes, attn_implementation=attention)
    rows, tokens, layer = 2, 32, LlamaDecoderLayer(config, 0).to(dtype)
    positions = LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(tokens)[None])
    mask = torch.zeros(rows, 1, tokens, tokens, dtype=dtype)
    inputs = torch.zeros(rows, tokens, 64, dtype=dtype, requires_grad=True)
    half = torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16)
    with bytes_kept_for_backward(*layer.parameters(), *positions, mask) as kept, half:
        layer(inputs, position_embeddings=positions, attention_mask=mask)
    found = kept() / rows / tokens
    # Beside them two norms, and sdpa per head, keep a float32 number.
    assert found == pytest.approx(layer_bytes(shape_of(config.to_dict(), ""), dtype.itemsize, row), rel=0.03)


def test_what_is_not_modelled(values):
    with pytest.raises(UserError, match=r"LoRA \(.*lora_rank=8\) is not modelled"):
        need_of(*values("js_kl", "run", "actor_rollout_ref.model.lora_rank=8"))
    with pytest.raises(UserError, match="a rollout other than hf on a CPU"):
        need_of(*values("js_kl", "run", device="cpu_vllm"))


def test_the_memory_of_a_container(tmp_path, monkeypatch):
    total, free = main_memory.memory()
    assert 0 < free <= total
    limits = [tmp_path / name for name in ("memory.max", "old", "none")]
    limits[0].write_text("max\n")
    limits[1].write_text("9223372036854771712\n")
    monkeypatch.setattr(main_memory, "_LIMITS", [str(path) for path in limits])
    assert main_memory.memory()[0] == total
    limits[0].write_text("1000000\n")
    assert main_memory.memory() == (1_000_000, 1_000_000)
    (tmp_path / "memory.current").write_text("900000\n")
    (tmp_path / "memory.stat").write_text("anon 500000\ninactive_file 250000\nactive_file 150000\n")
    assert main_memory.memory() == (1_000_000, 350_000)
