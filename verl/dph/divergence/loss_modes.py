"""What each `sft_loss_mode` adds to the loss: a divergence on D_pef rows, on D_exp rows, on both, or on neither.

D_pef rows are correct samples from pi_ref's nucleus (generator form, no reference model). D_exp rows are samples of
pi_theta (policy form), whose log-probs under pi_ref need a reference model. The table of modes is
rl/configuration/divergences.py.
"""

from dataclasses import dataclass
from functools import partial

from rl.configuration.divergences import DIVERGENCES
from verl.dph.divergence import f_divergences
from verl.dph.divergence.f_divergences import Integrand

# The function of each mode's whole divergence.
MODES: dict[str, Integrand] = {mode: getattr(f_divergences, d.function) for mode, d in DIVERGENCES.items()}

# sft_baseline=tail: the tail form of each function on D_pef. The forward KL has sft_kl_estimator=k1 instead.
TAIL_FORMS: dict[Integrand, Integrand] = {
    getattr(f_divergences, name): getattr(f_divergences, f"{name}_tail")
    for d in DIVERGENCES.values()
    if d.has_tail_form
    for name in (d.function, *(d.halves or ())[:1])
}


@dataclass(frozen=True)
class Terms:
    """The divergences that a mode adds to the loss.

    Attributes:
        pef: on D_pef rows, or None.
        exp: on D_exp rows, or None.
        pef_distance: the non-negative divergence that `pef` estimates, for whole distributions. It differs from `pef`
            for the tail forms only.
    """

    pef: Integrand | None = None
    exp: Integrand | None = None
    pef_distance: Integrand | None = None


def forms_of(mode: str, form: str, has_data: bool) -> tuple[bool, bool]:
    """Whether a mode has a divergence on D_pef, and whether it has one on D_exp.

    Args:
        mode: a name of DIVERGENCES, or "none".
        form: auto (as in the paper), generator (the whole divergence on D_pef) or policy (the whole on D_exp).
        has_data: whether the run has a D_pef store.
    """
    if mode == "none":
        return False, False
    if form != "auto":
        return form == "generator", form == "policy"
    on = DIVERGENCES[mode].on
    if on == "either":
        return has_data, not has_data
    return on in ("pef", "both"), on in ("exp", "both")


def terms_of(mode: str, form: str, has_data: bool, *, alpha: float, kl_estimator: str, baseline: str) -> Terms:
    """The divergences of a mode.

    Args:
        mode, form, has_data: as in `forms_of`.
        alpha: of the alpha divergence.
        kl_estimator: "k1" or "k3", of the forward KL on D_pef.
        baseline: "centred" or "tail", of the others on D_pef; "tail" only for those in TAIL_FORMS.
    """
    on_pef, on_exp = forms_of(mode, form, has_data)
    if not (on_pef or on_exp):
        return Terms()
    distance = exp = MODES[mode]
    if on_pef and on_exp:
        distance, exp = (getattr(f_divergences, half) for half in DIVERGENCES[mode].halves or ())
    pef = TAIL_FORMS[distance] if baseline == "tail" else distance
    if mode == "forward" and kl_estimator == "k1":
        pef = f_divergences.forward_kl_k1
    if mode == "alpha":
        pef, exp, distance = (partial(f, alpha=alpha) for f in (pef, exp, distance))
    return Terms(pef if on_pef else None, exp if on_exp else None, distance if on_pef else None)
