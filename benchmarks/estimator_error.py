"""Error of the gradient of a D_pef mini-batch against the exact one, for every divergence and bound on d.

    python benchmarks/estimator_error.py [--base DIR] [--policy DIR] [--store FILE] [--bounds 1 2 5 10]

The defaults are the outputs of `make demo`; use a model of that size, because some hundred gradients are held at once.
The exact gradient is that of the divergence between the next-token distributions of --base and --policy, a mean over
all response positions of the store; errors are distances from it over its norm. A form is exact, k1 or a bound.

    above   share of the stored tokens whose d is above the bound
    bias    error of the bounded divergence's expectation over pi_ref at every position: what the bound alone changes
    store   error on all stored tokens: what many passes over this D_pef converge to
    error   error on a mini-batch, mean and standard error over mini-batches; its mean cosine and norm beside it
"""

import argparse
import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM, PreTrainedModel

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.common.fingerprint import model_hash
from verl.dph.divergence import f_divergences
from verl.dph.divergence.f_divergences import Divergence
from verl.dph.divergence.loss_modes import MODES
from verl.dph.pef.store import Row, Store

EXACT, K1 = "exact", "k1"
COLUMNS = ("above", "bias", "store", "error", "se", "cosine", "norm")


@dataclass
class Gradients:
    """Gradients in all parameters of `policy`, one vector, sums over N response positions. `bounds` descend."""

    base: PreTrainedModel
    policy: PreTrainedModel
    temperature: float
    bounds: list[float]

    def positions(self, rows: list[Row]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """log pi_ref, log pi_theta (N, V) and the stored tokens' d (N,). The causal mask hides padding on the right."""
        sequences = [torch.cat([row.prompt, row.response]).long() for row in rows]
        ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        of_response = torch.zeros_like(ids, dtype=torch.bool)
        for place, row, sequence in zip(of_response, rows, sequences, strict=True):
            place[len(row.prompt) : len(sequence)] = True
        tokens, predicts = ids[of_response][:, None], of_response.roll(-1, dims=1)
        with torch.no_grad():
            log_p = (self.base(input_ids=ids).logits[predicts] / self.temperature).log_softmax(-1)
        log_q = (self.policy(input_ids=ids).logits[predicts] / self.temperature).log_softmax(-1)
        return log_p, log_q, (log_q - log_p).gather(1, tokens)[:, 0]

    def of(self, value: torch.Tensor) -> torch.Tensor:
        parts = torch.autograd.grad(value.sum(), list(self.policy.parameters()), retain_graph=True)
        return torch.cat([part.flatten() for part in parts])

    def forms(self, f: Divergence, log_p, log_q, d) -> dict[str | float, torch.Tensor]:
        """form -> gradient: the exact one, then those on the stored tokens."""
        found = {EXACT: self.of(f_divergences.between_distributions(f, log_p, log_q))}
        if f is f_divergences.forward_kl:
            found[K1] = self.of(f_divergences.forward_kl_k1(d))
        largest, last = d.max().item(), None
        for upper in self.bounds:
            if last is None or largest > upper:  # else no token is above it, and the gradient is the last one's
                last = self.of(f_divergences.with_linear_tail(f, d, upper))
            found[upper] = last
        return found

    def expected(self, f: Divergence, log_p, log_q) -> dict[float, torch.Tensor]:
        """bound -> gradient of the bounded divergence's expectation over pi_ref."""
        return {
            upper: self.of(log_p.exp() * f_divergences.with_linear_tail(f, log_q - log_p, upper))
            for upper in self.bounds
        }


def measure(gradients: Gradients, rows: list[Row], names: dict[str, Divergence], options) -> dict[tuple, list[float]]:
    """(divergence, form) -> the numbers of COLUMNS, NaN where there is none."""
    size, stored = options.batch_size, []
    whole, expected, errors = defaultdict(float), defaultdict(float), defaultdict(list)
    for start in tqdm(range(0, len(rows), size), desc="Whole store", unit="batch"):
        log_p, log_q, d = gradients.positions(rows[start : start + size])
        stored.append(d.detach())
        for name, f in names.items():
            for form, gradient in gradients.forms(f, log_p, log_q, d).items():
                whole[name, form] += gradient
            for form, gradient in gradients.expected(f, log_p, log_q).items():
                expected[name, form] += gradient
    stored = torch.cat(stored)
    torch.manual_seed(options.seed)
    for _ in tqdm(range(options.batches), desc="Mini-batches", unit="batch"):
        log_p, log_q, d = gradients.positions([rows[i] for i in torch.randperm(len(rows))[:size]])
        for name, f in names.items():
            for form, gradient in gradients.forms(f, log_p, log_q, d).items():
                errors[name, form].append(compare(gradient / len(d), whole[name, EXACT] / len(stored)))
    table = {}
    for (name, form), values in errors.items():
        above, bias, truth = math.nan, math.nan, whole[name, EXACT]
        if (name, form) in expected:
            above, bias = (stored > form).double().mean().item(), compare(expected[name, form], truth)[0]
        values = torch.tensor(values)
        (error, cosine, norm), spread = values.mean(0).tolist(), values[:, 0].std().item() / math.sqrt(len(values))
        table[name, form] = [above, bias, compare(whole[name, form], truth)[0], error, spread, cosine, norm]
    return table


def compare(gradient: torch.Tensor, truth: torch.Tensor) -> tuple[float, float, float]:
    """Distance and norm, both over the norm of `truth`, and in between the cosine."""
    cosine = torch.cosine_similarity(gradient, truth, dim=0)
    return tuple(x.item() for x in ((gradient - truth).norm() / truth.norm(), cosine, gradient.norm() / truth.norm()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    demo, last = Path("outputs/demo"), "grpo/global_step_80/actor/huggingface"
    parser.add_argument("--base", type=Path, default=demo / "model", help="pi_ref, a Hugging Face folder")
    parser.add_argument("--policy", type=Path, default=demo / "runs" / last, help="pi_theta, a Hugging Face folder")
    parser.add_argument("--store", type=Path, default=demo / "data" / "pef.pt", help="D_pef of --base")
    parser.add_argument("--bounds", type=float, nargs="+", default=[0.5, 1, 2, 3, 5, 7, 10], help="bounds on d")
    parser.add_argument("--batch-size", type=int, default=32, help="D_pef responses in a mini-batch")
    parser.add_argument("--batches", type=int, default=200, help="mini-batches, each without replacement")
    parser.add_argument("--seed", type=int, default=1, help="of the mini-batches")
    options = parser.parse_args()
    with user_errors_exit():
        store = Store.load(str(options.store))
        for folder in (folders := (options.base, options.policy)):
            if not (folder / "config.json").exists():
                raise UserError(f"{folder} holds no model: run `make demo`, or name folders with --base and --policy.")
        store.check_origin(str(options.store), model_hash=model_hash(options.base))
        if options.batch_size > len(store):
            raise UserError(f"--batch-size {options.batch_size} is more than the {len(store)} responses of the store.")
        names = MODES | {"alpha": partial(f_divergences.alpha_divergence, alpha=0.2)}  # the default of alpha_coeff
        del names["js"]  # the same divergence as js_low_var
        models = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in folders)
        gradients = Gradients(*models, store.meta["temperature"], sorted(options.bounds, reverse=True))
        table = measure(gradients, store.rows, names, options)
    sys.stdout.write(f"{'divergence':<12}{'form':>6}" + "".join(f"{column:>9}" for column in COLUMNS) + "\n")
    for (name, form), numbers in table.items():
        cells = ("-" if math.isnan(number) else f"{number:.4f}" for number in numbers)
        sys.stdout.write(f"{name:<12}{form:>6}" + "".join(f"{cell:>9}" for cell in cells) + "\n")


if __name__ == "__main__":
    main()
