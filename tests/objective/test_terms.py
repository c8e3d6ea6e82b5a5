"""Which divergence each mode puts on which rows (docs/explanation/method.md, "Modes")."""

from functools import partial

import pytest
import torch

from verl.dph.objective import f_divergences as dv
from verl.dph.objective.terms import MODES, terms_of
from verl.dph.training.config import forms_of


def terms(mode, form="auto", has_data=True, kl_estimator="k1", baseline="centred"):
    on_pef, on_exp = forms_of(mode, form, has_data)
    return terms_of(mode, on_pef=on_pef, on_exp=on_exp, alpha=0.2, kl_estimator=kl_estimator, baseline=baseline)


# Whether a term is on D_pef and on D_exp: with a store and without; all others have one on D_pef and need a store.
FORMS = {
    ("none", False): (False, False),
    ("js", True): (True, True),
    ("alpha", True): (True, False),
    ("alpha", False): (False, True),
    ("reverse_kl", False): (False, True),
}
ON_PEF = {(mode, True): (True, False) for mode in MODES if mode not in {mode for mode, _ in FORMS}}


@pytest.mark.parametrize(("mode", "has_data"), FORMS | ON_PEF)
def test_the_papers_forms(mode, has_data):
    assert forms_of(mode, "auto", has_data) == (FORMS | ON_PEF)[mode, has_data]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_has_both_forms(mode, device):
    d = torch.tensor([-2.0, 0.7], device=device)
    generator, policy = terms(mode, "generator"), terms(mode, "policy")
    assert generator.exp is None and policy.pef is None
    if mode != "forward":  # k1 on D_pef
        torch.testing.assert_close(generator.pef(d), policy.exp(d))
    assert (policy.exp(d) > 0).all()


def test_the_forward_kl_is_estimated_by_k1_or_k3(device):
    d = torch.tensor([-2.0, 0.7], device=device)
    torch.testing.assert_close(terms("forward").pef(d), -d)
    torch.testing.assert_close(terms("forward", kl_estimator="k3").pef(d), torch.expm1(d) - d)
    assert terms("forward", "policy").exp is dv.forward_kl


@pytest.mark.parametrize(
    ("mode", "pef"),
    [
        ("js_low_var", dv.js_doubled_tail),
        ("js", dv.kl_ref_mixture_tail),
        ("alpha", partial(dv.alpha_divergence_tail, alpha=0.2)),
    ],
)
def test_the_tail_baseline_changes_only_what_is_sampled_on_d_pef(mode, pef, device):
    d = torch.tensor([-2.0, 0.7], device=device)
    centred, tail = terms(mode), terms(mode, baseline="tail")
    assert torch.equal(tail.pef(d), pef(d)) and not torch.allclose(tail.pef(d), centred.pef(d))
    assert tail.exp is centred.exp
