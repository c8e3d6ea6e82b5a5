"""f-divergences between the policy and the initial policy, on samples of the initial policy (torch only).

Every function maps d = log pi_theta(a) - log pi_ref(a), per token, to the non-negative estimator

    f~(u) = f(u) - f'(1) (u - 1),   u = exp(d),   E_{a ~ pi_ref}[f~(u)] = D_f(pi_theta || pi_ref),

which is zero with zero gradient at u = 1 (METHOD.md, "Divergences on samples of pi_ref"; Csiszar 1967; the paper's
Appendix C). They are evaluated from d, never from probabilities, so that they stay exact where the policies agree and
finite where they do not. `bounded` continues each of them linearly above D_MAX: all grow like exp(d).
"""

import math
from collections.abc import Callable

import torch
from torch.nn.functional import softplus

LOG2 = math.log(2.0)

# Above this d a divergence is continued linearly. exp(10) = 22,026: one token whose probability rose that much already
# outweighs a whole mini-batch; beyond it, float32 would overflow at d = 88 and a single token would own the gradient.
# There is no lower bound: where the policy dropped a mode (d << 0) the forward KL must keep pulling.
D_MAX = 10.0

Divergence = Callable[[torch.Tensor], torch.Tensor]


def forward_kl(d: torch.Tensor) -> torch.Tensor:
    """KL(pi_ref || pi_theta), the k3 form: f~(u) = u - 1 - log u. Gradient weight u f~' = u - 1.

    Low value variance near u = 1, heavy-tailed gradient away from it; `forward_kl_k1` is the default for training.
    """
    return torch.expm1(d) - d


def forward_kl_k1(d: torch.Tensor) -> torch.Tensor:
    """KL(pi_ref || pi_theta), the k1 form: f(u) = -log u. Gradient -grad log pi_theta, as in supervised fine-tuning.

    The one estimator here that is not pointwise non-negative; its expectation is the same (f'(1) = -1 is not subtracted).
    """
    return -d


def reverse_kl(d: torch.Tensor) -> torch.Tensor:
    """KL(pi_theta || pi_ref): f~(u) = u log u - u + 1. Gradient weight u d."""
    return d * torch.exp(d) - torch.expm1(d)


def js_half(d: torch.Tensor) -> torch.Tensor:
    """JSD(pi_theta, pi_ref), the half form: f~(u) = 1/2 [u log u - (1 + u) log((1 + u)/2)].

    Written as 1/2 [(1 + u) log 2 - softplus(d) - u softplus(-d)]. Gradient weight 1/2 u (log 2 - softplus(-d)).
    """
    u = torch.exp(d)
    return 0.5 * ((1.0 + u) * LOG2 - softplus(d) - u * softplus(-d))


def kl_ref_mixture(d: torch.Tensor) -> torch.Tensor:
    """KL(pi_ref || M), M = (pi_theta + pi_ref)/2: f~(u) = (u - 1)/2 - log((1 + u)/2).

    The D_pef half of the JS definition (paper, Appendix E). Gradient weight u (u - 1) / (2 (1 + u)).
    """
    return 0.5 * torch.expm1(d) + LOG2 - softplus(d)


def alpha_divergence(d: torch.Tensor, alpha: float) -> torch.Tensor:
    """Alpha divergence, 0 < alpha < 1: f~(u) = (u^(1-a) - (1-a) u - a) / (a (a-1)). Gradient weight (u - u^(1-a))/a.

    alpha -> 1 is the forward KL and alpha -> 0 the reverse KL.
    """
    beta = 1.0 - alpha
    return (torch.expm1(beta * d) - beta * torch.expm1(d)) / (alpha * (alpha - 1.0))


def bounded(f: Divergence, d: torch.Tensor) -> torch.Tensor:
    """`f(d)` with its tangent at D_MAX above D_MAX: value and slope are continuous, the slope there is constant.

    Args:
        f: one of the functions above.
        d: any shape, float32; log pi_theta - log pi_ref per token.

    Returns:
        The shape of d, float32, finite for every finite d; the gradient is never zeroed on the lower side. Evaluated in
        float64: near d = 0 every divergence cancels to about d^2/2, which float32 cannot hold below |d| of 1e-3.
    """
    with torch.enable_grad():
        at_bound = torch.tensor(D_MAX, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(f(at_bound), at_bound)
    d = d.double()
    below = d.clamp(max=D_MAX)
    return (f(below) + slope.item() * (d - below)).float()
