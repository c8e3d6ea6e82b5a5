"""Cost of the labels' log-probs of a micro-batch from its logits, forward and backward: ours and verl's.

    python benchmarks/log_probs.py [--tokens 2048] [--vocabulary 32000] [--dtype bfloat16] [--rounds 5]

    ours      verl.dph.objective.log_probs.log_probs_of
    verl      logprobs_from_logits without flash-attn, token by token
    flash     the same with flash-attn's Triton cross-entropy, on a GPU where it is installed

It prints medians of interleaved rounds, and the peak memory beyond the logits; on a CPU each function has a separate
process. As in verl's engine, bfloat16 runs under autocast. The scripts' micro-batch is --tokens 20096 --vocabulary
128256.
"""

import argparse
import statistics
import sys
import time
from functools import partial
from types import SimpleNamespace

import torch
from cost import DEVICE, ON_CUDA, in_own_process, in_turns, peak_bytes
from tqdm import tqdm
from verl.utils import torch_functional

from verl.dph.objective.log_probs import log_probs_of

FUNCTIONS = {"ours": log_probs_of, "verl": torch_functional.logprobs_from_logits_v2}
if not ON_CUDA:
    # Autocast computes log_softmax in float32 on a GPU, but on a CPU only if asked.
    torch_functional.F = SimpleNamespace(log_softmax=partial(torch.nn.functional.log_softmax, dtype=torch.float32))
if ON_CUDA and torch_functional.FLAH_ATTN_CROSS_ENTROPY_LOSS_AVAILABLE:
    FUNCTIONS["flash"] = torch_functional.logprobs_from_logits_flash_attn


class Pass:
    """Forward and backward of one function on the same logits, which replace a model's output."""

    def __init__(self, name: str, options: argparse.Namespace):
        self.function = FUNCTIONS[name]
        dtype = getattr(torch, options.dtype)
        torch.manual_seed(0)
        self.logits = torch.randn(options.tokens, options.vocabulary, device=DEVICE, dtype=dtype).requires_grad_()
        self.labels = torch.randint(0, options.vocabulary, (options.tokens,), device=DEVICE)

    def __call__(self) -> None:
        logits = _Output.apply(self.logits)
        with torch.autocast("cuda", torch.bfloat16, enabled=ON_CUDA):
            log_probs = self.function(logits, self.labels)
        log_probs.sum().backward()
        self.logits.grad = None

    def seconds(self) -> float:
        self.logits.data.normal_()  # the last pass may have written its gradient there
        _wait()
        start = time.perf_counter()
        self()
        _wait()
        return time.perf_counter() - start


class _Output(torch.autograd.Function):
    """A tensor that is not a leaf, so that its gradient may be written into it without a copy."""

    @staticmethod
    def forward(ctx, logits):
        return logits.view_as(logits)

    @staticmethod
    def backward(ctx, gradient):
        return None


def _wait() -> None:
    if ON_CUDA:
        torch.cuda.synchronize()


def peak_of(name: str, options: argparse.Namespace) -> int:
    return peak_bytes(Pass(name, options))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    bar = tqdm(FUNCTIONS, desc="memory", unit="function")
    peaks = {name: peak_of(name, options) if ON_CUDA else in_own_process(peak_of, name, options) for name in bar}
    passes = {name: Pass(name, options) for name in FUNCTIONS}
    seconds = in_turns({name: work.seconds for name, work in passes.items()}, options.rounds, "passes")
    sys.stdout.write(f"{'':<8}{'s':>10}{'us/token':>12}{'/ ours':>9}{'peak MB':>10}\n")
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, median in medians.items():
        per_token = median / options.tokens * 1e6
        ratio = median / medians["ours"]
        sys.stdout.write(f"{name:<8}{median:>10.3f}{per_token:>12.1f}{ratio:>9.2f}{peaks[name] / 1e6:>10.0f}\n")


if __name__ == "__main__":
    main()
