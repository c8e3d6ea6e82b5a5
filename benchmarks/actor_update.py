"""Cost of an actor update with rehearsal, by verl's real training worker without Ray, on a GPU or on the CPU.

    python benchmarks/actor_update.py [--shape tiny|1b|3b] [--variants plain,sampled] [--rows 32] [--json FILE]

One update is one optimizer mini-batch of packed rows. All variants update the same model in turn, so that their ratios
come from one run, with one model in memory:

    plain       D_exp rows with GRPO's loss
    sampled     plain, and 1/8 D_pef rows with the divergence of the stored token (JS)
    reference   plain with a KL term, for which a reference model's forward pass over all rows is in the loop

Peak memory is the increase during the update, in the GPU's allocated memory or, on a CPU, in the memory of the process;
each variant then has its own process. Without a GPU set VERL_PLATFORM=cpu. Arguments KEY=VALUE are further settings of
verl/dph/config/dph_trainer.yaml, such as actor_rollout_ref.model.use_remove_padding=False.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from cost import DEVICE, ON_CUDA, in_own_process, in_turns, peak_bytes
from omegaconf import DictConfig
from standalone_worker import actor_worker, batch_of, be_the_only_rank, random_llama, set_loss, worker_config
from tensordict import TensorDict
from tqdm import tqdm
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.engine_workers import TrainingWorker

from verl.dph.config import attention

# hidden, layers, heads, key-value heads, feed-forward, vocabulary. 1b and 3b are Llama-3.2's, tiny is for two cores.
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
    "reference": [f"{ACTOR}use_kl_loss=True"],
}


def make_model(folder: str, shape: str) -> None:
    """A Llama of the shape with random weights. It needs no tokenizer, because rows are random ids."""
    model = random_llama(*SHAPES[shape], tie_word_embeddings=True)
    model.to(torch.float32 if shape == "tiny" else torch.bfloat16).save_pretrained(folder)


def config_of(model: str, options: argparse.Namespace, variant: str) -> DictConfig:
    settings = ["actor_rollout_ref.model.use_remove_padding=True", *VARIANTS[variant], *options.overrides]
    config = worker_config(model, DEVICE, options.micro_batch_tokens, *settings)
    attention.complete(config)
    return config


def rows_of(options: argparse.Namespace, kind: str) -> list[dict[str, torch.Tensor]]:
    """D_exp or D_pef rows of random ids, with the fields that the variants read."""
    g = torch.Generator().manual_seed(1 if kind == "exp" else 2)
    count = options.rows if kind == "exp" else options.rows // PEF_SHARE
    vocabulary, (p, r) = SHAPES[options.shape][-1], (options.prompt, options.response)
    rows = []
    for _ in range(count):
        ids = torch.randint(0, vocabulary, (p + r,), generator=g)
        old, here = -9 * torch.rand(r, generator=g), float(kind == "pef")
        mask = torch.full((r,), 1 - int(here), dtype=torch.int64)
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
            }
        )
    return rows


class Update:
    """One variant's updates of a worker's model."""

    def __init__(self, variant: str, worker: TrainingWorker, config: DictConfig, options: argparse.Namespace):
        self.worker, self.config = worker, config
        self.actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
        # A reference model costs a forward pass of an equal model, so the actor's weights serve as one.
        self.has_reference, self.rows_exp = variant == "reference", options.rows
        rows = rows_of(options, "exp") + (rows_of(options, "pef") if variant == "sampled" else [])
        drop = set() if self.actor.sft_loss_mode != "none" else {name for name in rows[0] if name.startswith("pef_")}
        drop |= set() if self.has_reference else {"ref_log_prob"}
        self.rows = [{name: value for name, value in row.items() if name not in drop} for row in rows]

    def __call__(self) -> TensorDict:
        """Do one update; return the result of verl's worker, with its "metrics"."""
        set_loss(self.worker, self.config)
        data = batch_of(self.rows)
        tu.assign_non_tensor(data, temperature=1.0, calculate_entropy=False, compute_loss=False)
        if self.has_reference:
            self.worker.infer_batch(data.copy())
        tu.assign_non_tensor(
            data,
            mini_batch_size=len(data),
            global_batch_size=self.rows_exp,
            dataloader_kwargs={"shuffle": False},
        )
        return self.worker.train_mini_batch(data)


def updates_of(variants: list[str], model: str, options: argparse.Namespace) -> dict[str, Update]:
    """Updates of one model, by variant."""
    configs = {variant: config_of(model, options, variant) for variant in variants}
    worker = actor_worker(next(iter(configs.values())))
    return {variant: Update(variant, worker, config, options) for variant, config in configs.items()}


def measure(update: Update) -> tuple[float, int]:
    """Seconds of one update and its peak memory. On a CPU the peak is 0, because it needs a separate process."""
    start, peak = time.perf_counter(), 0
    if ON_CUDA:
        peak = peak_bytes(update)
    else:
        update()
    return time.perf_counter() - start, peak


def measure_all(model: str, options: argparse.Namespace) -> dict[str, dict]:
    """{variant: {"seconds": [of each round], "peak_bytes": the most of a round}}."""
    updates = updates_of(options.variants, model, options)
    # The round that warms up also makes the optimizer's state.
    measures = {variant: partial(measure, update) for variant, update in updates.items()}
    found = in_turns(measures, options.rounds, "updates")
    return {
        variant: {"seconds": [seconds for seconds, _ in of], "peak_bytes": max(peak for _, peak in of)}
        for variant, of in found.items()
    }


def peak_of(variant: str, model: str, options: argparse.Namespace) -> int:
    """Peak bytes on a CPU, in a separate process so that no variant inherits another's free memory."""
    update = updates_of([variant], model, options)[variant]
    update()  # makes the optimizer's state
    return peak_bytes(update)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--shape", choices=SHAPES, default="tiny", help="the model's; 1b and 3b are Llama-3.2's")
    parser.add_argument("--rows", type=int, default=32, help="D_exp rows of the mini-batch; D_pef rows are 1/8 of them")
    parser.add_argument("--prompt", type=int, default=64, help="tokens")
    parser.add_argument("--response", type=int, default=192, help="tokens")
    parser.add_argument("--micro-batch-tokens", type=int, default=2304)
    parser.add_argument("--rounds", type=int, default=5, help="updates of each variant, after one to warm up")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="comma-separated; ratios are to the first")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements there too")
    parser.add_argument("--model", help="a folder with the model, instead of a temporary random one")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="further settings of all variants")
    options = parser.parse_args(argv)
    options.variants = options.variants.split(",")
    unknown = set(options.variants) - set(VARIANTS)
    if unknown:
        parser.error(f"--variants has {', '.join(sorted(unknown))}: use {', '.join(VARIANTS)}")
    return options


def main(argv: list[str]) -> None:
    options = parse(argv)
    be_the_only_rank()
    with tempfile.TemporaryDirectory() as folder:
        if not options.model:
            make_model(folder, options.shape)
        model = options.model or folder
        of_processes = [] if ON_CUDA else tqdm(options.variants, desc="memory", unit="variant")
        peaks = {variant: in_own_process(peak_of, variant, model, options) for variant in of_processes}
        found = measure_all(model, options)
    for variant, peak in peaks.items():
        found[variant]["peak_bytes"] = peak
    if options.json:
        device = torch.cuda.get_device_name() if ON_CUDA else f"CPU, {torch.get_num_threads()} threads"
        implementation = config_of(options.model or "", options, "plain").actor_rollout_ref.model.override_config
        versions = {"torch": torch.__version__, "device": device, **implementation}
        settings = {name: value for name, value in vars(options).items() if name != "json"}
        options.json.write_text(json.dumps(versions | {"settings": settings, "variants": found}, indent=1) + "\n")
    _print(found)


def _print(found: dict[str, dict]) -> None:
    medians = {variant: statistics.median(measured["seconds"]) for variant, measured in found.items()}
    first = next(iter(found))
    ratio = f"/ {first}"
    sys.stdout.write(f"{'':<12}{'s':>8}{ratio:>13}{'peak MB':>10}{ratio:>13}\n")
    for variant, median in medians.items():
        peak = found[variant]["peak_bytes"]
        sys.stdout.write(
            f"{variant:<12}{median:>8.2f}{median / medians[first]:>13.3f}"
            f"{peak / 1e6:>10.0f}{peak / found[first]['peak_bytes']:>13.3f}\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
