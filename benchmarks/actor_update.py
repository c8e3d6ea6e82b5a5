"""Cost of an actor update with rehearsal: verl's real training worker, without Ray, on a GPU or on the CPU.

    python benchmarks/actor_update.py [--shape tiny|1b|3b] [--rows 32] [--rounds 5]

One update is one optimizer mini-batch. Variants are interleaved, so that their ratios come from one run:

    plain       D_exp rows with GRPO's loss
    sampled     the same and 1/8 D_pef rows, divergence of the stored token (JS)
    topk        the same and 1/8 D_pef rows, divergence between stored next-token distributions
    reference   D_exp rows with GRPO's loss and a KL term: a reference model's forward pass over all rows in the loop

Peak memory is the increase of the device's memory, or on a CPU the process's, from before the update to its peak; each
variant is measured in a process of its own. Without a GPU set VERL_PLATFORM=cpu.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from hydra import compose, initialize_config_dir
from tqdm import tqdm
from transformers import LlamaConfig, LlamaForCausalLM
from verl.utils import tensordict_utils as tu

from verl.dph.config.program import CONFIG_DIR
from verl.dph.training.standalone_worker import actor_worker, batch_of

# hidden, layers, heads, key-value heads, feed-forward, vocabulary: Llama-3.2's, and one for two cores.
SHAPES = {
    "tiny": (256, 4, 4, 2, 1024, 8192),
    "1b": (2048, 16, 32, 8, 8192, 128256),
    "3b": (3072, 28, 24, 8, 8192, 128256),
}
PEF_SHARE = 8
ACTOR = "actor_rollout_ref.actor."
JS = [f"{ACTOR}sft_loss_mode=js_low_var", f"{ACTOR}sft_loss_coeff=0.2", "data.sft_pt=in_memory"]
VARIANTS = {
    "plain": [],
    "sampled": JS,
    "topk": [*JS, f"{ACTOR}sft_loss_estimator=topk"],
    "reference": [f"{ACTOR}use_kl_loss=True"],
}


def make_model(folder: str, shape: str) -> None:
    """A Llama of the shape with random weights, and no tokenizer: rows are random ids."""
    hidden, layers, heads, kv_heads, ffn, vocabulary = SHAPES[shape]
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=ffn,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).to(torch.float32 if shape == "tiny" else torch.bfloat16).save_pretrained(folder)


def config_of(model: str, options: argparse.Namespace, overrides: list[str]):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    settings = [
        f"actor_rollout_ref.model.path={model}",
        "+actor_rollout_ref.model.load_tokenizer=False",
        f"device={device}",
        f"{ACTOR}strategy=fsdp2",
        f"{ACTOR}use_dynamic_bsz=True",
        f"{ACTOR}ppo_max_token_len_per_gpu={options.micro_batch_tokens}",
        f"{ACTOR}use_torch_compile=False",
        f"{ACTOR}optim.total_training_steps=1000",
    ]
    if device == "cuda":
        # Packed rows need flash-attn with verl; padded ones do not.
        settings += ["actor_rollout_ref.model.use_remove_padding=False"]
        settings += ["+actor_rollout_ref.model.override_config.attn_implementation=sdpa"]
    with initialize_config_dir(str(CONFIG_DIR), version_base=None):
        return compose("dph_trainer", [*settings, *overrides])


def rows_of(options: argparse.Namespace, kind: str) -> list[dict[str, torch.Tensor]]:
    """D_exp or D_pef rows of random ids, with the fields that the variants read."""
    g = torch.Generator().manual_seed(1 if kind == "exp" else 2)
    count = options.rows if kind == "exp" else options.rows // PEF_SHARE
    vocabulary, (p, r, k) = SHAPES[options.shape][-1], (options.prompt, options.response, options.top_k)
    rows = []
    for _ in range(count):
        ids = torch.randint(0, vocabulary, (p + r,), generator=g)
        old, here = -9 * torch.rand(r, generator=g), float(kind == "pef")
        mask = torch.full((r,), 1 - int(here), dtype=torch.int64)
        top = torch.rand(r, k, generator=g).sort(-1, descending=True).values.log_softmax(-1) - 0.1
        stored = r if kind == "pef" else 0
        rows.append(
            {
                "input_ids": ids,
                "position_ids": torch.arange(p + r),
                "prompts": ids[:p],
                "responses": ids[p:],
                "response_mask": mask,
                "loss_mask": mask,
                "old_log_probs": old,
                "ref_log_prob": old,
                "advantages": (1 - here) * torch.randn(r, generator=g),
                "pef_ref_log_probs": old[:stored],
                "pef_num_tokens": torch.tensor(options.rows // PEF_SHARE * r),
                "pef_top_ids": torch.randint(0, vocabulary, (r, k), generator=g).int()[:stored],
                "pef_top_log_probs": top.half()[:stored],
                "pef_rest_log_probs": torch.full((r,), -2.35).half()[:stored],
            }
        )
    return rows


class Update:
    """One variant: a worker, and one update of it at a time."""

    def __init__(self, variant: str, model: str, options: argparse.Namespace):
        config = config_of(model, options, VARIANTS[variant])
        self.actor = config.actor_rollout_ref.actor
        self.worker = actor_worker(config)
        # The reference model costs a forward pass of an equal model; the actor's own weights stand in for it.
        self.has_reference, self.rows_exp = variant == "reference", options.rows
        rows = rows_of(options, "exp") + (rows_of(options, "pef") if variant in ("sampled", "topk") else [])
        drop = set() if self.actor.sft_loss_mode != "none" else {name for name in rows[0] if name.startswith("pef_")}
        drop |= set() if variant == "topk" else {name for name in rows[0] if "top" in name or "rest" in name}
        drop |= set() if self.has_reference else {"ref_log_prob"}
        self.rows = [{name: value for name, value in row.items() if name not in drop} for row in rows]

    def __call__(self) -> float:
        """Seconds of one update."""
        topk = self.actor.sft_loss_estimator == "topk"
        data = batch_of(self.rows)
        tu.assign_non_tensor(data, temperature=1.0, calculate_entropy=False, compute_loss=False)
        start = _now()
        if self.has_reference:
            self.worker.infer_batch(data.copy())
        tu.assign_non_tensor(
            data,
            mini_batch_size=len(data),
            global_batch_size=self.rows_exp,
            dataloader_kwargs={"shuffle": False},
            distillation_use_topk=topk,
            distillation_only=topk,
        )
        self.worker.train_mini_batch(data)
        return _now() - start


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def peak_bytes(variant: str, model: str, options: argparse.Namespace) -> int:
    """More memory at the peak of an update than before it, after a first update has made the optimizer's state."""
    update = Update(variant, model, options)
    update()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        update()
        return torch.cuda.max_memory_allocated() - before
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # what the first update has left free would hide the peak
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # sets the peak of resident memory to the present
    before = _resident("VmRSS")
    update()
    return _resident("VmHWM") - before


def _resident(name: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))


def measure_memory(model: str, argv: list[str]) -> dict[str, int]:
    """Each variant in a process of its own, so that none inherits another's free memory."""
    found = {}
    for variant in tqdm(VARIANTS, desc="memory", unit="variant"):
        command = [sys.executable, __file__, *argv, "--model", model, "--memory-of", variant]
        finished = subprocess.run(command, capture_output=True, text=True)
        if finished.returncode:
            raise SystemExit(f"{variant} failed:\n{finished.stderr[-3000:]}")
        found[variant] = json.loads(finished.stdout.splitlines()[-1])
    return found


def measure_seconds(model: str, options: argparse.Namespace) -> dict[str, list[float]]:
    updates = {variant: Update(variant, model, options) for variant in VARIANTS}
    seconds = {variant: [] for variant in VARIANTS}
    for round_number in tqdm(range(options.rounds + 1), desc="updates", unit="round"):
        for variant, update in updates.items():
            took = update()
            if round_number:  # the first warms up
                seconds[variant].append(took)
    return seconds


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--shape", choices=SHAPES, default="tiny", help="of the model; 1b and 3b are Llama-3.2's")
    parser.add_argument("--rows", type=int, default=32, help="D_exp rows of the mini-batch; D_pef rows are 1/8 of them")
    parser.add_argument("--prompt", type=int, default=64, help="tokens")
    parser.add_argument("--response", type=int, default=192, help="tokens")
    parser.add_argument("--top-k", type=int, default=64)
    parser.add_argument("--micro-batch-tokens", type=int, default=2304)
    parser.add_argument("--rounds", type=int, default=5, help="updates of each variant, after one that is not counted")
    parser.add_argument("--model", help="a folder with the model, instead of a random one that is made and removed")
    parser.add_argument("--memory-of", choices=VARIANTS, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: list[str]) -> None:
    options = parse(argv)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(20_000 + os.getpid() % 20_000))
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    if options.memory_of:
        sys.stdout.write(f"\n{json.dumps(peak_bytes(options.memory_of, options.model, options))}\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        if not options.model:
            make_model(folder, options.shape)
        model = options.model or folder
        memory = measure_memory(model, [part for part in argv if part != options.model and part != "--model"])
        seconds = measure_seconds(model, options)
    medians = {variant: statistics.median(values) for variant, values in seconds.items()}
    sys.stdout.write(f"{'':<12}{'s':>8}{'/ plain':>10}{'/ sampled':>11}{'peak MB':>10}{'/ sampled':>11}\n")
    for variant, median in medians.items():
        sys.stdout.write(
            f"{variant:<12}{median:>8.2f}{median / medians['plain']:>10.3f}{median / medians['sampled']:>11.3f}"
            f"{memory[variant] / 1e6:>10.0f}{memory[variant] / memory['sampled']:>11.3f}\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
