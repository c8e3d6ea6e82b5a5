"""The divergences against a table of values, against autograd and against expectations over whole vocabularies."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from verl.dph.objective import f_divergences as dv
from verl.dph.objective import terms

ALPHAS = (0.2, 0.5, 0.8)


def by_name(names):
    """{name: function}; the alpha divergence is there for several alpha."""
    plain = {name: getattr(dv, name) for name in names if not name.startswith("alpha")}
    return plain | {
        f"{name}_{a}": partial(getattr(dv, name), alpha=a) for name in names if name not in plain for a in ALPHAS
    }


# In the table's order, once each.
GENERATORS = by_name(dict.fromkeys(f.__name__ for f in (*terms.MODES.values(), *terms.HALVES["js"])))
# Neither centred nor non-negative: f'(inf) (u - 1) is subtracted.
TAIL_FORMS = by_name(["forward_kl_k1", *(form.__name__ for form in terms.TAIL_FORMS.values())])
BOUND, POLICY_BOUND = 1.0, 10.0
POINTS = [-5.0, -1.0, 0.0, 0.5, 1.0, 3.0]
TABLE = {  # values at POINTS
    "forward_kl": [4.006738, 0.367879, 0, 0.148721, 0.718282, 16.085537],
    "reverse_kl": [0.959572, 0.264241, 0, 0.175639, 1.000000, 41.171074],
    "js_doubled": [0.657367, 0.151758, 0, 0.080256, 0.412521, 10.590890],
    "kl_ref_mixture": [0.189801, 0.063825, 0, 0.043431, 0.239026, 7.187328],
    "kl_policy_mixture": [0.467566, 0.087933, 0, 0.036825, 0.173495, 3.403562],  # js_doubled - kl_ref_mixture
    "alpha_divergence_0.2": [1.169217, 0.281091, 0, 0.169702, 0.931778, 32.782832],
    "alpha_divergence_0.5": [1.685136, 0.309636, 0, 0.161341, 0.841679, 24.244318],
    "alpha_divergence_0.8": [2.709176, 0.342782, 0, 0.153583, 0.764085, 18.718679],
    # 1/2 (sqrt u - 1)^2 and (u - 1)^2 by hand
    "hellinger": [0.421285, 0.077409, 0, 0.040335, 0.210420, 6.061080],
    "chi_square": [0.986569, 0.399576, 0, 0.420839, 2.952492, 364.257720],
    # f(u) - f'(inf) (u - 1) by hand, with f'(inf) = 0, log 2, 0, 1/2 and 1/a
    "forward_kl_k1": [5, 1, 0, -0.5, -1, -3],
    "js_doubled_tail": [1.345844, 0.589911, 0, -0.369403, -0.778501, -2.638196],
    "kl_ref_mixture_tail": [0.686432, 0.379885, 0, -0.280930, -0.620115, -2.355440],
    "hellinger_tail": [0.917915, 0.393469, 0, -0.284025, -0.648721, -3.481689],
    "alpha_divergence_tail_0.2": [6.135527, 3.441694, 0, -3.073904, -7.659631, -62.644852],
    "alpha_divergence_tail_0.5": [3.671660, 1.573877, 0, -1.136102, -2.594885, -13.926756],
    "alpha_divergence_tail_0.8": [3.950753, 1.132933, 0, -0.657318, -1.383767, -5.138243],
}


@pytest.mark.parametrize("name", GENERATORS | TAIL_FORMS)
def test_values_of_the_table(name, device):
    f = (GENERATORS | TAIL_FORMS)[name]
    values = dv.with_linear_tail(f, torch.tensor(POINTS, device=device), upper=None)
    torch.testing.assert_close(values, torch.tensor(TABLE[name], device=device), atol=1e-6, rtol=1e-6)


def gradient_weight(name, u):
    """u f~'(u) as docs/explanation/method.md states it, in probabilities and float64."""
    log, a = torch.log, float(name.split("_")[-1]) if name.startswith("alpha") else None
    if name.startswith("alpha_divergence_tail"):
        return -(u ** (1 - a)) / a
    if name.startswith("alpha_divergence"):
        return (u - u ** (1 - a)) / a
    return {
        "forward_kl_k1": lambda: -torch.ones_like(u),
        "js_doubled_tail": lambda: -u * log((1 + u) / u),
        "kl_ref_mixture_tail": lambda: -u / (1 + u),
        "hellinger_tail": lambda: -u.sqrt() / 2,
        "forward_kl": lambda: u - 1,
        "reverse_kl": lambda: u * log(u),
        "js_doubled": lambda: u * log(2 * u / (1 + u)),
        "kl_ref_mixture": lambda: u * (u - 1) / (2 * (1 + u)),
        "kl_policy_mixture": lambda: u * (log(2 * u / (1 + u)) + 1 / (1 + u) - 0.5),
        "hellinger": lambda: (u - u.sqrt()) / 2,
        "chi_square": lambda: 2 * u * (u - 1),
    }[name]()


@pytest.mark.parametrize("name", GENERATORS | TAIL_FORMS)
def test_gradient_is_u_times_the_derivative(name, device):
    f = (GENERATORS | TAIL_FORMS)[name]
    d = torch.tensor([-5.0, -1.0, -0.3, 0.2, 0.5, 1.0, 3.0, 8.0], device=device, requires_grad=True)
    (grad,) = torch.autograd.grad(dv.with_linear_tail(f, d, upper=None).sum(), d)
    torch.testing.assert_close(grad, gradient_weight(name, d.detach().double().exp()).float(), rtol=1e-5, atol=1e-6)
    assert torch.autograd.gradcheck(f, d.detach().double().requires_grad_(), raise_exception=True)  # finite differences


@pytest.mark.parametrize("name", GENERATORS)
@given(d=st.floats(-200, 200))
def test_non_negative_and_finite(name, d, device):
    x = torch.tensor([d], device=device, requires_grad=True)
    value = dv.with_linear_tail(GENERATORS[name], x, upper=BOUND)
    (grad,) = torch.autograd.grad(value.sum(), x)
    assert torch.isfinite(value).all() and torch.isfinite(grad).all()
    assert value.item() >= -1e-12  # float64 rounding of terms of order 1


@pytest.mark.parametrize("name", GENERATORS)
def test_linear_above_the_bound(name, device):
    d = torch.tensor([BOUND, BOUND + 1, BOUND + 2, 200.0], device=device, requires_grad=True)
    values = dv.with_linear_tail(GENERATORS[name], d, BOUND)
    (grad,) = torch.autograd.grad(values.sum(), d)
    slope = grad[1].item()
    assert slope > 0
    assert torch.allclose(grad[1:], grad[1].expand(3)) and grad[0].item() == pytest.approx(slope, rel=1e-5)
    assert (values[2] - values[1]).item() == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("f", [dv.forward_kl, dv.forward_kl_k1])
def test_forward_kl_keeps_pulling_where_a_mode_was_dropped(f, device):
    d = torch.tensor([-12.0, -50.0, -200.0], device=device, requires_grad=True)
    (grad,) = torch.autograd.grad(dv.with_linear_tail(f, d, BOUND).sum(), d)
    torch.testing.assert_close(grad, torch.full((3,), -1.0, device=device), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", GENERATORS)
def test_zero_value_and_gradient_at_equality_and_no_cancellation_near_it(name, device):
    """All generators are d^2 f''(1)/2 near 0; f''(1) = 1, but a quarter for a KL to the mixture and Hellinger."""
    quarter = dict.fromkeys(("kl_ref_mixture", "kl_policy_mixture", "hellinger"), 0.25)
    curvature = (quarter | {"js_doubled": 0.5, "chi_square": 2.0}).get(name, 1.0)
    zero = torch.zeros(1, device=device, requires_grad=True)
    value = dv.with_linear_tail(GENERATORS[name], zero, BOUND)
    (grad,) = torch.autograd.grad(value.sum(), zero)
    assert value.item() == 0.0 and abs(grad.item()) < 1e-12
    for d in (1e-4, -1e-4):
        value = dv.with_linear_tail(GENERATORS[name], torch.tensor([d], device=device), BOUND).item()
        assert value == pytest.approx(curvature * d * d / 2, rel=1e-3)


EXACT = {
    "forward_kl": lambda p, q: (q * (q / p).log()).sum(),
    "reverse_kl": lambda p, q: (p * (p / q).log()).sum(),
    "js_doubled": lambda p, q: (p * (2 * p / (p + q)).log()).sum() + (q * (2 * q / (p + q)).log()).sum(),
    "kl_ref_mixture": lambda p, q: (q * (2 * q / (p + q)).log()).sum(),
    "kl_policy_mixture": lambda p, q: (p * (2 * p / (p + q)).log()).sum(),
    "hellinger": lambda p, q: 0.5 * ((p.sqrt() - q.sqrt()) ** 2).sum(),
    "chi_square": lambda p, q: ((p - q) ** 2 / q).sum(),
    "alpha_divergence_0.2": lambda p, q: ((p**0.8 * q**0.2).sum() - 1) / (0.2 * (0.2 - 1)),
    "alpha_divergence_0.5": lambda p, q: ((p**0.5 * q**0.5).sum() - 1) / (0.5 * (0.5 - 1)),
    "alpha_divergence_0.8": lambda p, q: ((p**0.2 * q**0.8).sum() - 1) / (0.8 * (0.8 - 1)),
}
OF_TAIL_FORM = {
    "forward_kl_k1": EXACT["forward_kl"],
    "js_doubled_tail": EXACT["js_doubled"],
    "kl_ref_mixture_tail": EXACT["kl_ref_mixture"],
    "hellinger_tail": EXACT["hellinger"],
    **{f"alpha_divergence_tail_{a}": EXACT[f"alpha_divergence_{a}"] for a in ALPHAS},
}


@pytest.mark.parametrize("name", GENERATORS | TAIL_FORMS)
@given(pairs=st.lists(st.tuples(st.floats(-6, 6), st.floats(-6, 6)), min_size=2, max_size=6))
def test_generator_form_is_unbiased_over_every_token_of_small_vocabularies(name, pairs, device):
    """Its mean over pi_ref is the divergence and its mean gradient is the divergence's gradient."""
    f, exact = (GENERATORS | TAIL_FORMS)[name], (EXACT | OF_TAIL_FORM)[name]
    logits, of_ref = torch.tensor(pairs, dtype=torch.float64, device=device).T
    logits, log_q = logits.clone().requires_grad_(), of_ref.log_softmax(0)
    mean = (log_q.exp() * f(logits.log_softmax(0) - log_q)).sum()
    expected = exact(logits.softmax(0), log_q.exp())
    torch.testing.assert_close(mean, expected, rtol=1e-9, atol=1e-9)
    (gradient,), (wanted,) = (torch.autograd.grad(value, logits) for value in (mean, expected))
    torch.testing.assert_close(gradient, wanted, rtol=1e-7, atol=1e-9)


# ---------------------------------------------------------------------------- on samples of the policy


@pytest.mark.parametrize("name", GENERATORS)
def test_policy_weight_is_the_derivative_of_f_less_that_at_one(name, device):
    d = torch.tensor([-9.0, -5.0, -1.0, -1e-4, 0.0, 1e-4, 0.5, 1.0, 3.0, 9.0], device=device)
    u = d.double().exp()
    expected = (gradient_weight(name, u) / u).float()
    torch.testing.assert_close(dv.policy_weight(GENERATORS[name], d, POLICY_BOUND), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", GENERATORS)
@given(d=st.floats(-200, 200))
def test_policy_weight_is_finite_and_has_the_sign_of_d(name, d, device):
    """Where the policy is above the reference it is pushed down, where it is below, up."""
    weight = dv.policy_weight(GENERATORS[name], torch.tensor([d], device=device), POLICY_BOUND).item()
    value = dv.policy_value(GENERATORS[name], torch.tensor([d], device=device), POLICY_BOUND).item()
    assert abs(weight) < 1e12 and 0 <= value + 1e-12 < 1e12
    if abs(d) >= 1e-12:
        assert weight * d > 0
    else:  # computed in float64, whose rounding decides the sign of what is nothing; the weight is f''(1) d
        assert abs(weight) <= (2 if name == "chi_square" else 1) * 1e-12


@pytest.mark.parametrize("name", GENERATORS)
def test_policy_form_is_unbiased(name, device):
    """E_{a ~ pi_theta}[w(d) grad log pi_theta] is the divergence's gradient, and the mean of f~(u) / u is its value."""
    g = torch.Generator().manual_seed(4)
    log_p, log_q = torch.randn(2, 7, generator=g, dtype=torch.float64).log_softmax(1).to(device)
    logits = log_p.clone().requires_grad_()
    value = EXACT[name](logits.softmax(0), log_q.exp())
    (exact,) = torch.autograd.grad(value, logits)
    d = (log_p - log_q).float()
    weights = dv.policy_weight(GENERATORS[name], d, POLICY_BOUND).double()
    per_action = torch.stack(
        [torch.autograd.grad(weights[a] * logits.log_softmax(0)[a], logits)[0] for a in range(len(log_p))]
    )
    torch.testing.assert_close((log_p.exp()[:, None] * per_action).sum(0), exact, rtol=1e-4, atol=1e-6)
    values = dv.policy_value(GENERATORS[name], d, POLICY_BOUND).double()
    torch.testing.assert_close((log_p.exp() * values).sum(), value.detach(), rtol=1e-4, atol=1e-6)
