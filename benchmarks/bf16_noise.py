"""Noise of bf16 log-probs: how much they differ for the same responses in other micro-batches. The store's check
(verl/dph/pef/verify.py) must distinguish this noise from wrong log-probs.

    VERL_PLATFORM=cpu python benchmarks/bf16_noise.py [--hidden 1024] [--layers 8] [--vocabulary 128256] [--json FILE]

A Llama with random weights answers random prompts. Its last layer is scaled so that its logits have the standard
deviations of --logits; the entropy then ranges from a uniform distribution's to nearly 0. verl's FSDP engine
computes the log-probs of the responses and of their --top-k likeliest next tokens four times, in bf16 as in training:

    packed      all rows, as many per micro-batch as --micro-batch-tokens allow; the others are compared with this
    reordered   the same rows in another order, half as many per micro-batch
    alone       one row per micro-batch
    padded      rows padded to the same length instead of packed

A row's difference d is the mean over the response's tokens, or over the top-k, as in the check. A change of a logit by
e changes the log-prob of a token of probability p by e (1 - p). So d / mean(1 - p) is the effect of rounded logits at
any entropy. "of bound" is the largest share of the difference that the check allows. On a GPU leave VERL_PLATFORM out.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import torch
from cost import DEVICE
from standalone_worker import actor_worker, batch_of, be_the_only_rank, random_llama, worker_config
from tqdm import tqdm
from transformers import LlamaForCausalLM
from verl.utils import tensordict_utils as tu

from verl.dph.pef.batch_fields import PEF_TOP_LOG_PROBS, token_fields
from verl.dph.pef.store import Row
from verl.dph.pef.verify import Tolerance, other_probability
from verl.dph.training.actor_worker import DPHPasses

PROMPT = 16  # tokens
HEAD_DIM = 64
SETTINGS = (
    "++actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    "++actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=bf16",
)

# For each row, the log-probs of the response (R,) and of its top-k (R, k).
LogProbs = list[tuple[torch.Tensor, torch.Tensor]]


def make_model(folder: str, options: argparse.Namespace) -> LlamaForCausalLM:
    """A Llama with random weights, saved without a tokenizer; its logits have a standard deviation of 1."""
    heads = options.hidden // HEAD_DIM
    sizes = options.hidden, options.layers, heads, max(heads // 4, 1), 4 * options.hidden, options.vocabulary
    model = random_llama(*sizes, tie_word_embeddings=False, attn_implementation="sdpa")
    model.lm_head.weight.data.normal_(std=options.hidden**-0.5)
    model.save_pretrained(folder)
    return model.to(DEVICE, torch.bfloat16).eval()


def answered(model: LlamaForCausalLM, options: argparse.Namespace) -> list[Row]:
    """Random prompts with sampled responses, cut to lengths between half of --response tokens and all."""
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(options.vocabulary, (options.rows, PROMPT), generator=generator).to(DEVICE)
    sampled = model.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=options.response,
        eos_token_id=None,
        pad_token_id=0,
    ).cpu()
    lengths = torch.randint(options.response // 2, options.response + 1, (options.rows,), generator=generator).tolist()
    cut = zip(sampled, lengths, strict=True)
    return [Row(i, ids[:PROMPT], ids[PROMPT : PROMPT + length], None) for i, (ids, length) in enumerate(cut)]


def batches(options: argparse.Namespace) -> Iterator[tuple[str, torch.Tensor, dict]]:
    """Yield each computation's name, order of the rows and settings of verl."""
    order = torch.arange(options.rows)
    packed = {"use_remove_padding": True, "use_dynamic_bsz": True, "max_token_len_per_gpu": options.micro_batch_tokens}
    yield "packed", order, packed
    mixed = torch.randperm(options.rows, generator=torch.Generator().manual_seed(1))
    yield "reordered", mixed, packed | {"max_token_len_per_gpu": options.micro_batch_tokens // 2}
    fixed = {"use_dynamic_bsz": False, "micro_batch_size_per_gpu": 1}
    yield "alone", order, fixed | {"use_remove_padding": True}
    yield "padded", order, fixed | {"use_remove_padding": False, "micro_batch_size_per_gpu": options.rows // 2}


def log_probs(worker, rows: list[Row], order: torch.Tensor, settings: dict, top_k: int) -> LogProbs:
    """The log-probs from the store's pass over these rows, in the original order."""
    ordered = [rows[i] for i in order.tolist()]
    fields = token_fields(ordered)
    masks = {name: [torch.ones_like(row.response) for row in ordered] for name in ("response_mask", "loss_mask")}
    columns = {name: [part.long() for part in parts] for name, parts in (fields | masks).items()}
    data = batch_of([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
    tu.assign_non_tensor(data, temperature=1.0, calculate_entropy=False, top_k=top_k, **settings)
    output = DPHPasses.compute_top_k(SimpleNamespace(actor=worker), data)
    of_tokens, of_top = output["log_probs"].unbind(), output[PEF_TOP_LOG_PROBS].unbind()
    found: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for place, row, whole, top in zip(order.tolist(), ordered, of_tokens, of_top, strict=True):
        found[place] = (whole[-len(row.response) - 1 : -1].float().cpu(), top.float().cpu())
    return [found[place] for place in range(len(rows))]


def measure(options: argparse.Namespace) -> Iterator[dict]:
    """Yield the worst rows for each scale of the logits and each batch."""
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(folder, options)
        worker = actor_worker(worker_config(folder, DEVICE, options.micro_batch_tokens, *SETTINGS))
    last = {name: parameter for name, parameter in worker.engine.module.named_parameters() if "lm_head" in name}
    [head] = last.values()
    scale, bound = 1.0, Tolerance.of("bfloat16", None)
    for logits in tqdm(options.logits, desc="bf16 noise", unit="scale"):
        with torch.no_grad():
            for weight in (head, model.lm_head.weight):
                weight.mul_(logits / scale)
        scale = logits
        rows = answered(model, options)
        found = {name: log_probs(worker, rows, order, how, options.top_k) for name, order, how in batches(options)}
        entropy = -float(torch.cat([of_tokens for of_tokens, _ in found["packed"]]).mean())
        for name, again in found.items():
            if name == "packed":
                continue
            result = {"logits": logits, "entropy": entropy, "batch": name}
            for what, part in (("tokens", 0), ("top_k", 1)):
                pairs = [(one[part], other[part]) for one, other in zip(found["packed"], again, strict=True)]
                found_apart = [bound.difference(one, other) for one, other in pairs]
                apart = [difference.nats for difference in found_apart]
                result[what] = {
                    "mean d": sum(apart) / len(apart),
                    "worst d": max(apart),
                    "d/(1-p)": max(d / other_probability(one) for d, (one, _) in zip(apart, pairs, strict=True)),
                    "of bound": max(difference.share for difference in found_apart),
                }
            yield result


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--hidden", type=int, default=1024, help=f"a multiple of {HEAD_DIM}")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--response", type=int, default=48, help="tokens of the longest responses")
    parser.add_argument("--top-k", type=int, default=16)
    parser.add_argument("--micro-batch-tokens", type=int, default=512)
    parser.add_argument("--logits", type=float, nargs="+", default=[0.6, 2.5, 4.0, 5.0, 8.0, 16.0])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args(argv)


def main(argv: list[str]) -> None:
    options = parse(argv)
    be_the_only_rank()
    results = []
    columns = ("mean d", "worst d", "d/(1-p)", "of bound")
    sys.stdout.write(f"{'':32}{'tokens':^40}{f'top-{options.top_k}':^40}\n{'logits':>8}{'entropy':>10}  {'batch':<12}")
    sys.stdout.write("".join(f"{name:>10}" for name in columns * 2) + "\n")
    for result in measure(options):
        results.append(result)
        values = [result[what][name] for what in ("tokens", "top_k") for name in columns]
        sys.stdout.write(f"{result['logits']:>8.1f}{result['entropy']:>10.3f}  {result['batch']:<12}")
        sys.stdout.write("".join(f"{value:>10.5f}" for value in values) + "\n")
    if options.json:
        content = {"device": DEVICE, "settings": vars(options), "results": results}
        options.json.write_text(json.dumps(content, default=str) + "\n")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
