"""What the log-probs of a real micro-batch cost on a GPU.

    python check_cuda.py REPORT.json [--small]

It measures seconds and memory of our code and of verl's. Checks continue after one that fails. The tests marked gpu
compare the values.
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
from verl.utils import torch_functional

from verl.dph.objective import topk_logprobs

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WARM_UP = 128  # tokens


class Size:
    """Vocabulary, stored tokens per position, and the checks' numbers of tokens and rows.

    micro_batch is the launch scripts' default (MAX_TOKENS_PER_GPU).
    """

    def __init__(self, small: bool):
        self.vocabulary, self.top_k = (4096, 16) if small else (128_256, 64)
        self.store_tokens, self.micro_batch = (128, 256) if small else (4096, 20_096)


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


CHECKS = (micro_batch, store_top_k)


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
