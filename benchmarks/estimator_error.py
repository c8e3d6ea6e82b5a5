"""Error of a D_pef mini-batch's gradient against the exact gradient, for every divergence, bound on d and baseline.

    python benchmarks/estimator_error.py [--base DIR] [--policy DIR] [--store FILE] [--bounds 1 2 5] [--tokens 800]

The defaults are the outputs of `make demo`; use a model of that size, because the whole store is one graph. The exact
gradient belongs to the divergence between the next-token distributions of --base and --policy, averaged over all
response positions of the store; --drift interpolates the policy's weights between --base and --policy. A mini-batch has
N tokens, each sampled from pi_ref (--top-p) at a random position. Errors are distances from the exact gradient, divided
by its norm. A form is exact (positions are sampled, tokens are not), k1, tail, or a bound of the centred form.

    kept     norm of the form's expected gradient over the norm of the exact gradient
    bias     error of the expected gradient
    N rms    root-mean-square error of a mini-batch of N tokens, over all tokens of the vocabulary, however rare
    N median error of the median mini-batch among --batches sampled ones, and their mean cosine
"""

import argparse
import math
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM, PreTrainedModel

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.common.fingerprint import model_hash
from verl.dph.objective import f_divergences
from verl.dph.objective.f_divergences import Integrand
from verl.dph.objective.terms import MODES, TAIL_FORMS
from verl.dph.pef.store import Row, Store


@dataclass
class Positions:
    """The next-token distributions at all N response positions of a store, V tokens.

    Attributes:
        log_p: (N, V) log pi_ref.
        log_q: (N, V) log pi_theta, with the graph to `parameters`.
        sampling: (N, V) probabilities from which a position's token is sampled.
    """

    log_p: torch.Tensor
    log_q: torch.Tensor
    sampling: torch.Tensor
    parameters: list[torch.nn.Parameter]

    @classmethod
    def of(cls, base: PreTrainedModel, policy: PreTrainedModel, rows: list[Row], temperature: float, top_p: float):
        """Compute the distributions. Padding is on the right, where the causal mask hides it."""
        sequences = [torch.cat([row.prompt, row.response]).long() for row in rows]
        ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        predicts = torch.zeros_like(ids, dtype=torch.bool)
        for place, row, sequence in zip(predicts, rows, sequences, strict=True):
            place[len(row.prompt) - 1 : len(sequence) - 1] = True
        with torch.no_grad():
            log_p = (base(input_ids=ids).logits[predicts] / temperature).log_softmax(-1)
            p, order = log_p.exp().sort(-1, descending=True)
            p = p.masked_fill(p.cumsum(-1) - p >= top_p, 0.0)
            sampling = torch.zeros_like(p).scatter(1, order, p / p.sum(-1, keepdim=True))
        log_q = (policy(input_ids=ids).logits[predicts] / temperature).log_softmax(-1)
        return cls(log_p, log_q, sampling, list(policy.parameters()))

    def gradient(self, weights: torch.Tensor) -> torch.Tensor:
        """Sum over positions and tokens of weights (N, V) times grad log pi_theta, in all parameters as one vector."""
        value = (weights.float() * self.log_q).sum()
        return torch.cat([g.flatten() for g in torch.autograd.grad(value, self.parameters, retain_graph=True)])

    def sample(self, tokens: int) -> torch.Tensor:
        """(N, V) the share of each token at each position among `tokens` sampled tokens."""
        at = torch.randint(len(self.sampling), (tokens,))
        counts = torch.zeros_like(self.sampling)
        sampled = torch.multinomial(self.sampling[at], 1)[:, 0]
        return counts.index_put_((at, sampled), torch.ones(tokens), accumulate=True) / tokens


def generator_weight(f: Integrand, log_ratio: torch.Tensor) -> torch.Tensor:
    """u f~'(u), the weight of grad log pi_theta on samples of pi_ref, in float64 and without gradient."""
    with torch.enable_grad():
        log_ratio = log_ratio.detach().double().requires_grad_()
        return torch.autograd.grad(f(log_ratio).sum(), log_ratio)[0]


def forms(f: Integrand, tail: Integrand | None, bounds: list[float], log_ratio: torch.Tensor) -> dict:
    """{form: weight of grad log pi_theta, (N, V)}."""
    weights = {f"{bound:g}": generator_weight(f, log_ratio.clamp(max=bound)) for bound in bounds}
    weights["none"] = generator_weight(f, log_ratio)
    if tail is not None:
        name = "k1" if tail is f_divergences.forward_kl_k1 else "tail"
        weights[name] = generator_weight(tail, log_ratio)
    return weights


def measure(positions: Positions, weights: dict[str, torch.Tensor], options) -> dict[str, list[float]]:
    """{form: kept, bias, then rms, median and cosine for each of --tokens}; missing values are NaN."""
    count, sampling, table = len(positions.log_p), positions.sampling, {}
    whole = positions.log_p.exp() * weights["none"] / count
    truth = positions.gradient(whole)
    batches = {n: [positions.sample(n) for _ in range(options.batches)] for n in options.tokens}

    def second_moment(factors: torch.Tensor, signs_shape: tuple[int, int]) -> float:
        """Sum of |factor grad log pi_theta|^2, by random signs, whose mixed terms vanish in expectation."""
        same = torch.Generator().manual_seed(options.seed)  # all forms get the same signs
        draws = (torch.randint(2, signs_shape, generator=same) * 2.0 - 1 for _ in range(options.signs))
        return sum(positions.gradient(signs * factors).square().sum().item() for signs in draws) / options.signs

    for form, weight in {"exact": None, **weights}.items():
        if weight is None:
            mean, moment = truth, second_moment(whole * math.sqrt(count), (count, 1))
        else:
            mean = positions.gradient(sampling * weight / count)
            moment = second_moment((sampling / count).sqrt() * weight, tuple(weight.shape))
        bias = (mean - truth).norm().item()
        variance = max(moment - mean.square().sum().item(), 0.0)
        numbers = [mean.norm().item(), bias]
        for n in options.tokens:
            numbers.append(math.sqrt(bias**2 + variance / n))
            if weight is None:
                numbers += [math.nan, math.nan]
                continue
            found = torch.stack([positions.gradient(batch * weight) for batch in batches[n]])
            cosine = torch.cosine_similarity(found, truth[None]).mean().item()
            numbers += [(found - truth).norm(dim=1).median().item(), cosine * truth.norm().item()]
        table[form] = [number / truth.norm().item() for number in numbers]
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    demo, last = Path("outputs/demo"), "grpo/global_step_60/actor/huggingface"
    parser.add_argument("--base", type=Path, default=demo / "model", help="pi_ref, a Hugging Face folder")
    parser.add_argument("--policy", type=Path, default=demo / "runs" / last, help="pi_theta, a Hugging Face folder")
    parser.add_argument("--store", type=Path, default=demo / "data" / "pef.pt", help="D_pef of --base")
    parser.add_argument("--drift", type=float, default=1.0, help="share of the way from --base to --policy")
    parser.add_argument("--modes", nargs="+", default=[mode for mode in MODES if mode != "js"], choices=MODES)
    parser.add_argument("--bounds", type=float, nargs="+", default=[0.5, 1, 2, 3, 5, 10], help="bounds on d")
    parser.add_argument("--alpha", type=float, default=0.2, help="alpha of the alpha divergence")
    parser.add_argument("--top-p", type=float, default=1.0, help="nucleus from which the mini-batches are sampled")
    parser.add_argument("--tokens", type=int, nargs="+", default=[800, 5000, 40000], help="sizes of a mini-batch")
    parser.add_argument("--batches", type=int, default=20, help="sampled mini-batches of each size")
    parser.add_argument("--signs", type=int, default=10, help="draws of random signs for the rms error")
    parser.add_argument("--seed", type=int, default=1, help="seed of mini-batches and signs")
    options = parser.parse_args()
    with user_errors_exit():
        store = Store.load(str(options.store))
        for folder in (folders := (options.base, options.policy)):
            if not (folder / "config.json").exists():
                raise UserError(f"{folder} holds no model: run `make demo`, or name folders with --base and --policy.")
        store.check_origin(str(options.store), {"model_hash": model_hash(options.base)})
        base, policy = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in folders)
        with torch.no_grad():
            for ours, theirs in zip(policy.parameters(), base.parameters(), strict=True):
                ours.lerp_(theirs, 1 - options.drift)
        assert isinstance(temperature := store.meta["temperature"], float)
        positions = Positions.of(base, policy, store.rows, temperature, options.top_p)
    log_ratio = positions.log_q.detach() - positions.log_p
    kl = -(positions.log_p.exp() * log_ratio).sum(-1)
    sys.stdout.write(f"KL(pi_ref || pi_theta): {kl.mean():.4f} nats per token\n")
    sizes = "".join(f"{f'{n} rms':>10}{'median':>9}{'cosine':>9}" for n in options.tokens)
    sys.stdout.write(f"{'divergence':<12}{'form':>6}{'kept':>9}{'bias':>9}{sizes}\n")
    for mode in tqdm(options.modes, unit="divergence"):
        f = MODES[mode]
        tail = f_divergences.forward_kl_k1 if mode == "forward" else TAIL_FORMS.get(f)
        if mode == "alpha":
            f, tail = (partial(function, alpha=options.alpha) for function in (f, TAIL_FORMS[f]))
        torch.manual_seed(options.seed)
        for form, numbers in measure(positions, forms(f, tail, options.bounds, log_ratio), options).items():
            cells = ("-" if math.isnan(number) else f"{number:.3f}" for number in numbers)
            widths = (9, 9, *(10, 9, 9) * len(options.tokens))
            line = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
            sys.stdout.write(f"{mode:<12}{form:>6}{line}\n")


if __name__ == "__main__":
    main()
