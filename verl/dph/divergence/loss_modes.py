"""`sft_loss_mode`: which divergence a mode computes on D_pef rows and which on D_exp rows.

docs/explanation/method.md, "Modes", has the table.

On D_pef the samples are pi_ref's, correct and from its nucleus (the generator form, no reference model); on D_exp they
are pi_theta's (the policy form, which needs pi_ref's log-probs of them, that is, a reference model).
"""

from dataclasses import dataclass
from functools import partial

from verl.dph.divergence import f_divergences
from verl.dph.divergence.f_divergences import Divergence

# The whole divergence of each mode of sft_loss_mode (rl/configuration/training.py).
MODES: dict[str, Divergence] = {
    "forward": f_divergences.forward_kl,
    "js": f_divergences.js_doubled,
    "js_low_var": f_divergences.js_doubled,
    "reverse_kl": f_divergences.reverse_kl,
    "alpha": f_divergences.alpha_divergence,
    "hellinger": f_divergences.hellinger,
    "chi_square": f_divergences.chi_square,
}

# sft_baseline=tail, of the divergences whose f'(inf) is finite. That of the forward KL is k1 (sft_kl_estimator).
TAIL_FORMS: dict[Divergence, Divergence] = {
    f_divergences.js_doubled: f_divergences.js_doubled_tail,
    f_divergences.kl_ref_mixture: f_divergences.kl_ref_mixture_tail,
    f_divergences.alpha_divergence: f_divergences.alpha_tail,
    f_divergences.hellinger: f_divergences.hellinger_tail,
}


@dataclass(frozen=True)
class Terms:
    """What is added to the loss: a divergence on D_pef rows, on D_exp rows, on both (js) or on neither (none).

    Attributes:
        pef: on D_pef rows, or None.
        exp: on D_exp rows, or None.
        pef_distance: the non-negative divergence that `pef` estimates, for whole distributions; `pef` itself but for
            the tail forms.
    """

    pef: Divergence | None = None
    exp: Divergence | None = None
    pef_distance: Divergence | None = None


def forms_of(mode: str, form: str, has_data: bool) -> tuple[bool, bool]:
    """(on D_pef, on D_exp) of a mode.

    Args:
        mode: a name of MODES, or "none".
        form: auto (as the paper has it), generator (the whole divergence on D_pef) or policy (on D_exp).
        has_data: whether D_pef is there: in its absence the alpha divergence takes the policy form.
    """
    if mode == "none":
        return False, False
    if form != "auto":
        return form == "generator", form == "policy"
    match mode:
        case "js":
            return True, True
        case "reverse_kl":
            return False, True
        case "alpha":
            return has_data, not has_data
    return True, False


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
        distance, exp = f_divergences.kl_ref_mixture, f_divergences.kl_policy_mixture
    pef = TAIL_FORMS[distance] if baseline == "tail" else distance
    if mode == "forward" and kl_estimator == "k1":
        pef = f_divergences.forward_kl_k1
    if mode == "alpha":
        pef, exp, distance = (partial(f, alpha=alpha) for f in (pef, exp, distance))
    return Terms(pef if on_pef else None, exp if on_exp else None, distance if on_pef else None)
