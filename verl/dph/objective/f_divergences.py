"""f-divergences D_f(pi_theta || pi_ref) between the policy and the initial policy (torch only).

A divergence is one function here. It maps log_ratio = log pi_theta(a) - log pi_ref(a), per token, to

    f~(u) = f(u) - f'(1) (u - 1),   u = exp(log_ratio),   E_{a ~ pi_ref}[f~(u)] = D_f(pi_theta || pi_ref),

which is non-negative, and zero with zero gradient at u = 1 (docs/explanation/method.md; Csiszar 1967; the
paper's Appendix C). Two estimators use it, and none needs another formula:

    with_linear_tail(f, log_ratio, upper)  on a token sampled by pi_ref: f~(u)
    policy_weight(f, log_ratio, bound)     on a token sampled by pi_theta: f~'(u) = f'(u) - f'(1), the weight of
                                           grad log pi_theta

On a token sampled by pi_ref any multiple of u - 1 may be subtracted. The functions *_tail subtract f'(inf) (u - 1),
where that is finite: they have the same expectation, but are neither non-negative nor flat at u = 1.

The stored samples are correct ones from pi_ref's nucleus. Over them E[u] is not 1, the mean of f~ is not D_f, and forms
that differ by a multiple of u - 1 have different means (docs/explanation/method.md, "What stored responses estimate").

Everything is evaluated from log_ratio, never from probabilities, and in float64: near 0 every f~ cancels to about
log_ratio^2 / 2, which float32 cannot hold below 1e-3, and far from it exp overflows float32 at 88. Results are float32.
In the formulas below d is log_ratio.
"""

import math
from collections.abc import Callable

import torch
from torch.nn.functional import softplus

LOG2 = math.log(2.0)

# f~ of a divergence, as a function of the log-ratio.
Integrand = Callable[..., torch.Tensor]


def forward_kl(log_ratio: torch.Tensor) -> torch.Tensor:
    """KL(pi_ref || pi_theta), the k3 form: f(u) = -log u, f~(u) = u - 1 - log u. Gradient weight u f~' = u - 1.

    Its value has low variance near u = 1, its gradient heavy tails; `forward_kl_k1` is the default for training.
    """
    return torch.expm1(log_ratio) - log_ratio


def forward_kl_k1(log_ratio: torch.Tensor) -> torch.Tensor:
    """KL(pi_ref || pi_theta), the k1 form: f(u) = -log u. Gradient -grad log pi_theta, as in supervised fine-tuning.

    The tail form of the forward KL (f'(inf) = 0), for single samples only. Its mean over samples of any distribution
    rho is KL(rho || pi_theta) up to a constant.
    """
    return -log_ratio


def reverse_kl(log_ratio: torch.Tensor) -> torch.Tensor:
    """KL(pi_theta || pi_ref): f~(u) = u log u - u + 1. Gradient weight u d."""
    return log_ratio * torch.exp(log_ratio) - torch.expm1(log_ratio)


def js_doubled(log_ratio: torch.Tensor) -> torch.Tensor:
    """2 JSD = KL(pi_ref || M) + KL(pi_theta || M), the paper's DPH-JS objective in its generator form.

    f~(u) = u log u - (1 + u) log((1 + u)/2), written as (1 + u) log 2 - softplus(d) - u softplus(-d). Gradient weight
    u (log 2 - softplus(-d)).
    """
    u = torch.exp(log_ratio)
    return (1.0 + u) * LOG2 - softplus(log_ratio) - u * softplus(-log_ratio)


def js_doubled_tail(log_ratio: torch.Tensor) -> torch.Tensor:
    """2 JSD, the tail form, f'(inf) = log 2: 2 log 2 - u softplus(-d) - softplus(d).

    Gradient weight -u softplus(-d), in (-1, 0).
    """
    return 2.0 * LOG2 - torch.exp(log_ratio) * softplus(-log_ratio) - softplus(log_ratio)


def kl_ref_mixture(log_ratio: torch.Tensor) -> torch.Tensor:
    """KL(pi_ref || M), M = (pi_theta + pi_ref)/2: f~(u) = (u - 1)/2 - log((1 + u)/2).

    The D_pef half of the JS definition (paper, Appendix E). Gradient weight u (u - 1) / (2 (1 + u)).
    """
    return 0.5 * torch.expm1(log_ratio) + LOG2 - softplus(log_ratio)


def kl_ref_mixture_tail(log_ratio: torch.Tensor) -> torch.Tensor:
    """KL(pi_ref || M), the tail form, f'(inf) = 0: log 2 - softplus(d). Gradient weight -u / (1 + u), in (-1, 0)."""
    return LOG2 - softplus(log_ratio)


def kl_policy_mixture(log_ratio: torch.Tensor) -> torch.Tensor:
    """KL(pi_theta || M): f~(u) = u log(2u / (1 + u)) - (u - 1)/2.

    Gradient weight u [log 2 - softplus(-d) + 1/(1+u) - 1/2]. The D_exp half of the JS definition (paper, Appendix E),
    there on samples of the policy.
    """
    return torch.exp(log_ratio) * (LOG2 - softplus(-log_ratio)) - 0.5 * torch.expm1(log_ratio)


def alpha_divergence(log_ratio: torch.Tensor, alpha: float) -> torch.Tensor:
    """Alpha divergence, 0 < alpha < 1: f~(u) = (u^(1-a) - (1-a) u - a) / (a (a-1)). Gradient weight (u - u^(1-a))/a.

    alpha -> 1 is the forward KL and alpha -> 0 the reverse KL.
    """
    beta = 1.0 - alpha
    return (torch.expm1(beta * log_ratio) - beta * torch.expm1(log_ratio)) / (alpha * (alpha - 1.0))


def alpha_divergence_tail(log_ratio: torch.Tensor, alpha: float) -> torch.Tensor:
    """Alpha divergence, the tail form, f'(inf) = 1/a: (u^(1-a) - 1) / (a (a-1)). Gradient weight -u^(1-a) / a."""
    return torch.expm1((1.0 - alpha) * log_ratio) / (alpha * (alpha - 1.0))


def hellinger(log_ratio: torch.Tensor) -> torch.Tensor:
    """Squared Hellinger distance 1/2 sum (sqrt p - sqrt q)^2: f~(u) = 1/2 (sqrt u - 1)^2.

    Gradient weight (u - sqrt u)/2. A quarter of the alpha divergence at 1/2; at most 1 (Hellinger 1909).
    """
    return 0.5 * torch.expm1(0.5 * log_ratio).square()


def hellinger_tail(log_ratio: torch.Tensor) -> torch.Tensor:
    """Squared Hellinger distance, the tail form, f'(inf) = 1/2: 1 - sqrt u. Gradient weight -sqrt u / 2."""
    return -torch.expm1(0.5 * log_ratio)


def chi_square(log_ratio: torch.Tensor) -> torch.Tensor:
    """Pearson's chi-square sum (q - p)^2 / p with q = pi_theta: f~(u) = (u - 1)^2. Gradient weight 2 u (u - 1).

    It grows with u^2, the heaviest tail of all (Pearson 1900).
    """
    return torch.expm1(log_ratio).square()


def _with_tangents(f: Integrand, log_ratio: torch.Tensor, lower: float | None, upper: float | None) -> torch.Tensor:
    """`f` between the bounds and its tangents beyond them: value and slope are continuous, no gradient is zeroed."""
    inside = log_ratio.clamp(min=lower, max=upper)
    value = f(inside)
    for bound, beyond in ((lower, torch.lt), (upper, torch.gt)):
        if bound is None:
            continue
        with torch.enable_grad():
            at = torch.tensor(bound, dtype=log_ratio.dtype, device=log_ratio.device, requires_grad=True)
            (slope,) = torch.autograd.grad(f(at), at)
        value = value + torch.where(beyond(log_ratio, bound), slope * (log_ratio - bound), 0.0)
    return value


def with_linear_tail(f: Integrand, log_ratio: torch.Tensor, upper: float | None) -> torch.Tensor:
    """`f`, continued by its tangent above `upper`: the generator form on samples of pi_ref.

    There is no lower bound: where the policy dropped a mode (log_ratio << 0) the forward KL must keep pulling.

    Args:
        f: one of the functions above.
        log_ratio: any shape, float32; log pi_theta - log pi_ref per token.
        upper: where the linear tail begins; None: nowhere.

    Returns:
        The shape of log_ratio, float32; with a bound of at most 40 finite for |log_ratio| up to 200.
    """
    log_ratio = log_ratio.double()
    return (f(log_ratio) if upper is None else _with_tangents(f, log_ratio, None, upper)).float()


def policy_weight(f: Integrand, log_ratio: torch.Tensor, bound: float) -> torch.Tensor:
    """f~'(u) = f'(u) - f'(1), the weight of grad log pi_theta on samples of pi_theta.

    grad D_f(pi_theta || pi_ref) = E_{a ~ pi_theta}[f'(u) grad log pi_theta(a)], and a constant may be subtracted as a
    baseline (docs/explanation/method.md, "the policy form"). Computed as d/dd f~ / u, so that no divergence needs
    a second formula.

    Args:
        f: one of the functions above, except the tail forms.
        log_ratio: any shape, float32, at tokens that the policy sampled.
        bound: beyond +-bound the weight is continued by its tangents, because it grows with exp(|d|) (forward KL where
            d << 0, Pearson where d >> 0).

    Returns:
        The shape of log_ratio, float32, without gradient.
    """

    def weight(log_ratio: torch.Tensor) -> torch.Tensor:
        (slope,) = torch.autograd.grad(f(log_ratio).sum(), log_ratio, create_graph=True)
        return slope * torch.exp(-log_ratio)

    with torch.enable_grad():
        log_ratio = log_ratio.detach().double().requires_grad_()
        return _with_tangents(weight, log_ratio, -bound, bound).detach().float()


def policy_value(f: Integrand, log_ratio: torch.Tensor, bound: float) -> torch.Tensor:
    """f~(u) / u, whose mean over samples of pi_theta is the divergence; without gradient, for metrics.

    Args and Returns: as `policy_weight`.
    """

    def value(log_ratio: torch.Tensor) -> torch.Tensor:
        return f(log_ratio) * torch.exp(-log_ratio)

    return _with_tangents(value, log_ratio.detach().double(), -bound, bound).float()
