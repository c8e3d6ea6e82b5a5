"""The mathematics on a GPU, at the size of a real micro-batch.

    python check_cuda.py REPORT.json [--small]

It compares divergences with the CPU's, with and without bf16 autocast, and the one-pass log-probs with float64. It
measures seconds and memory of a micro-batch, of our code and of verl's. Checks continue after one that fails.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from verl.utils import torch_functional

from rl.configuration.divergences import DIVERGENCES
from verl.dph.divergence import f_divergences, topk_logprobs

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NAMES = sorted({name for divergence in DIVERGENCES.values() for name in divergence.functions})
FUNCTIONS: dict[str, f_divergences.Integrand] = {name: getattr(f_divergences, name) for name in NAMES}
FUNCTIONS["alpha_divergence"] = partial(f_divergences.alpha_divergence, alpha=0.2)


WARM_UP = 128  # tokens


class Size:
    """Vocabulary, stored tokens per position, and the checks' numbers of tokens and rows.

    micro_batch is the launch scripts' default (MAX_TOKENS_PER_GPU).
    """

    def __init__(self, small: bool):
        self.vocabulary, self.top_k = (4096, 16) if small else (128_256, 64)
        self.exact_tokens, self.store_tokens, self.micro_batch = (64, 128, 256) if small else (1024, 4096, 20_096)


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest relative difference of two tensors."""
    a, b = a.double().cpu(), b.double().cpu()
    return float(((a - b).abs() / (1e-6 + b.abs())).max())


def cost(function: Callable[[], object]) -> dict[str, float]:
    """Seconds of a call, and on a GPU the GB that it allocated in addition."""
    on_gpu, before = DEVICE == "cuda", 0
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    function()
    if on_gpu:
        torch.cuda.synchronize()
    found = {"s": round(time.perf_counter() - start, 4)}
    return found | ({"GB": round((torch.cuda.max_memory_allocated() - before) / 1e9, 2)} if on_gpu else {})


def logits_of(size: Size, tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """bf16 logits (tokens, vocabulary), labels, and the second half's positions with their top tokens."""
    g = torch.Generator(DEVICE).manual_seed(2)
    logits = torch.randn(tokens, size.vocabulary, generator=g, device=DEVICE, dtype=torch.bfloat16) * 4
    labels = torch.randint(0, size.vocabulary, (tokens,), generator=g, device=DEVICE)
    positions = torch.arange(tokens // 2, tokens, device=DEVICE)
    return logits, labels, positions, logits[positions].topk(size.top_k, dim=-1).indices.int()


def divergences(size: Size) -> dict:
    """Value, gradient and policy weight of every divergence equal the CPU's, also under bf16 autocast."""
    g = torch.Generator().manual_seed(0)
    near, far = 1e-4 * torch.randn(4000, generator=g), 3 * torch.randn(4000, generator=g)
    log_ratio = torch.cat([far, near, torch.linspace(-60, 60, 601)])

    def computed(f, device, autocast):
        # On the CPU .to() copies nothing, and the tensor itself would become a leaf.
        x = log_ratio.clone().to(device).requires_grad_()
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            value = f_divergences.with_linear_tail(f, x, 1.0)
            weight, of_policy = f_divergences.policy_weight(f, x, 10.0), f_divergences.policy_value(f, x, 10.0)
        value.sum().backward()
        return value.detach(), x.grad, weight, of_policy

    worst = {}
    for name, f in FUNCTIONS.items():
        expected = computed(f, "cpu", False)
        for autocast in (False, True):
            found = computed(f, DEVICE, autocast)
            worst[f"{name}, autocast {autocast}"] = max(map(relative, found, expected))
    assert max(worst.values()) < 1e-5, worst
    return {"largest_relative_difference": max(worst.values())}


def between_distributions(size: Size) -> dict:
    """The divergence of next-token distributions and its gradient equal the CPU's under bf16 autocast."""
    g = torch.Generator().manual_seed(1)
    log_p, logits = (4 * torch.randn(512, size.top_k + 1, generator=g) for _ in range(2))
    log_p, worst = log_p.log_softmax(-1), 0.0
    for f in FUNCTIONS.values():
        results = []
        for device in ("cpu", DEVICE):
            x = logits.clone().to(device).requires_grad_()
            with torch.autocast(device, torch.bfloat16, enabled=device != "cpu"):
                value = f_divergences.between_distributions(f, log_p.to(device), x.float().log_softmax(-1))
            value.sum().backward()
            results.append((value.detach().cpu(), x.grad.cpu()))
        for expected, found in zip(*results, strict=True):
            worst = max(worst, float((found - expected).abs().max() / (1e-6 + expected.abs().max())))
    assert worst < 1e-4, worst
    return {"largest_relative_difference": worst}


def one_pass_log_probs(size: Size) -> dict:
    """Compare log-probs of labels, top tokens and the rest, and the logits' gradient, with float64."""
    logits, labels, positions, ids = logits_of(size, size.exact_tokens)
    shapes = (len(labels),), (len(positions), size.top_k + 1)
    weights = [torch.randn(shape, device=DEVICE) for shape in shapes]
    exact = logits.double().requires_grad_()
    log_softmax = exact.log_softmax(-1)
    rows = log_softmax[positions]
    rest = rows.scatter(1, ids.long(), -torch.inf).logsumexp(-1, keepdim=True)
    expected = log_softmax.gather(1, labels[:, None])[:, 0], torch.cat([rows.gather(1, ids.long()), rest], -1)
    sum((a * b.double()).sum() for a, b in zip(expected, weights, strict=True)).backward()
    result = {}
    for overwrite in (False, True):
        x = logits.clone().requires_grad_()
        with torch.autocast(DEVICE, torch.bfloat16):
            found = topk_logprobs.LogProbs.apply(x * 1.0, labels, positions, ids, overwrite)
        sum((a * b).sum() for a, b in zip(found, weights, strict=True)).backward()
        values = max(float((a.detach().double() - b).abs().max()) for a, b in zip(found, expected, strict=True))
        gradient = float((x.grad.double() - exact.grad).norm() / exact.grad.norm())
        assert values < 1e-4 and gradient < 5e-3, (overwrite, values, gradient)
        result[f"overwrite_{overwrite}"] = {"values": values, "gradient": gradient}
    return result


def micro_batch(size: Size) -> dict:
    """Cost of log-probs and their gradient: ours with top-k or labels alone, verl's with and without flash-attn."""
    result: dict = {"logits_GB": size.micro_batch * size.vocabulary * 2 / 1e9}

    def measured(name: str, log_probs: Callable, tokens: int = size.micro_batch) -> None:
        for count in (WARM_UP, tokens):  # the first call compiles kernels
            logits, *rest = logits_of(size, count)
            x = logits.requires_grad_() * 1
            del logits

            def forward_and_backward(x=x, rest=rest):
                with torch.autocast(DEVICE, torch.bfloat16):
                    found = log_probs(x, *rest)
                found.sum().backward()

            result[name] = {"tokens": count} | cost(forward_and_backward)

    def ours(x, labels, positions, ids, overwrite):
        return torch.cat(
            [part.flatten() for part in topk_logprobs.LogProbs.apply(x, labels, positions, ids, overwrite)]
        )

    def of_labels(x, labels, *_):
        return topk_logprobs.log_probs_of(x, labels)

    def verls(x, labels, *_):
        return torch_functional.logprobs_from_logits(x, labels)

    for overwrite in (False, True):
        measured(f"ours_top_k_overwrite_{overwrite}", partial(ours, overwrite=overwrite))
    measured("ours_labels", of_labels)
    if torch_functional.FLAH_ATTN_CROSS_ENTROPY_LOSS_AVAILABLE and DEVICE == "cuda":
        measured("verl_with_flash_attn", verls)
    torch_functional.FLAH_ATTN_CROSS_ENTROPY_LOSS_AVAILABLE = False
    measured("verl_without_flash_attn", verls, size.micro_batch // 4)
    return result


def store_top_k(size: Size) -> dict:
    """Cost of the stored next-token distributions, whose probabilities sum to 1."""
    logits = logits_of(size, size.store_tokens)[0]
    topk_logprobs.largest(logits[:WARM_UP], size.top_k)
    found: list[torch.Tensor] = []
    spent = cost(lambda: found.extend(topk_logprobs.largest(logits, size.top_k)))
    _, log_probs, rest = found
    total = float(torch.cat([log_probs.float(), rest.float()[:, None]], -1).logsumexp(-1).abs().max())
    assert total < 5e-3, total
    return {"tokens": size.store_tokens, "sum_off_by": total} | spent


def overwritten_logits(size: Size) -> dict:
    """A model's gradients are the same whether or not the logits' gradient is written into the logits."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=512,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )
    with torch.device(DEVICE):
        model = LlamaForCausalLM(config).train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    ids = torch.randint(0, size.vocabulary, (1, 256), device=DEVICE)
    labels, positions = torch.roll(ids, -1, 1)[0], torch.arange(100, 200, device=DEVICE)
    top = torch.stack([torch.randperm(size.vocabulary, device=DEVICE)[: size.top_k] for _ in positions])
    gradients = []
    for overwrite in (False, True):
        model.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16):
            logits = model(ids, use_cache=False).logits[0]
            log_probs, log_q = topk_logprobs.LogProbs.apply(logits, labels, positions, top, overwrite)
            even = torch.full_like(log_q, -1).log_softmax(-1)
            apart = f_divergences.between_distributions(f_divergences.js_doubled, even, log_q)
        (log_probs.mean() + apart.mean()).backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    norm = sum(float(a.norm() ** 2) for a in gradients[0]) ** 0.5
    off = sum(float((a - b).norm() ** 2) for a, b in zip(*gradients, strict=True)) ** 0.5 / norm
    assert norm > 0 and off < 1e-3, (norm, off)
    return {"relative_difference": off, "norm": norm}


CHECKS = (
    divergences,
    between_distributions,
    one_pass_log_probs,
    micro_batch,
    store_top_k,
    overwritten_logits,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    options = parser.parse_args()
    report: dict = {"device": DEVICE, "torch": torch.__version__, "checks": {}, "failed": []}
    for check in CHECKS:
        start = time.perf_counter()
        try:
            found = check(Size(options.small))
        except Exception:
            found = {"error": traceback.format_exc()[-1500:]}
            report["failed"].append(check.__name__)
        found["seconds"] = round(time.perf_counter() - start, 2)
        report["checks"][check.__name__] = found
        sys.stdout.write(f"{check.__name__}: {json.dumps(found)[:700]}\n")
        options.report.write_text(json.dumps(report, indent=1) + "\n")
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
    sys.stdout.write(f"FAILED: {', '.join(report['failed'])}\n" if report["failed"] else "All checks passed.\n")
    return bool(report["failed"])


if __name__ == "__main__":
    sys.exit(main())
