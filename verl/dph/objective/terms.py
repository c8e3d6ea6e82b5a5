"""The divergences that a mode (`sft_loss_mode`) adds to the loss.

D_pef rows are correct samples from pi_ref's nucleus (generator form, no reference model). D_exp rows are samples of
pi_theta (policy form), whose log-probs under pi_ref need a reference model.
"""

from dataclasses import dataclass
from functools import partial

from verl.dph.objective import f_divergences
from verl.dph.objective.f_divergences import Integrand

# The whole divergence of each mode.
MODES: dict[str, Integrand] = {
    "forward": f_divergences.forward_kl,
    "js": f_divergences.js_doubled,
    "js_low_var": f_divergences.js_doubled,
    "reverse_kl": f_divergences.reverse_kl,
    "alpha": f_divergences.alpha_divergence,
    "hellinger": f_divergences.hellinger,
    "chi_square": f_divergences.chi_square,
}
# Of a mode with a term on both sets: the halves of its divergence on D_pef and on D_exp.
HALVES: dict[str, tuple[Integrand, Integrand]] = {"js": (f_divergences.kl_ref_mixture, f_divergences.kl_policy_mixture)}
# sft_baseline=tail: the tail form of each function on D_pef. The forward KL has sft_kl_estimator=k1 instead.
TAIL_FORMS: dict[Integrand, Integrand] = {
    f_divergences.js_doubled: f_divergences.js_doubled_tail,
    f_divergences.kl_ref_mixture: f_divergences.kl_ref_mixture_tail,
    f_divergences.alpha_divergence: f_divergences.alpha_divergence_tail,
    f_divergences.hellinger: f_divergences.hellinger_tail,
}


@dataclass(frozen=True)
class Terms:
    """The divergences of a run.

    Attributes:
        pef: on D_pef rows, or None.
        exp: on D_exp rows, or None.
    """

    pef: Integrand | None = None
    exp: Integrand | None = None


def terms_of(mode: str, *, on_pef: bool, on_exp: bool, alpha: float, kl_estimator: str, baseline: str) -> Terms:
    """The divergences of a mode.

    Args:
        mode: a key of MODES, or "none".
        on_pef, on_exp: which sets have a term (training/config.py, active_forms). With both, each has a half.
        alpha: of the alpha divergence.
        kl_estimator: "k1" or "k3", of the forward KL on D_pef.
        baseline: "centred" or "tail", of the others on D_pef; "tail" only for those in TAIL_FORMS.
    """
    if not (on_pef or on_exp):
        return Terms()
    pef, exp = HALVES[mode] if on_pef and on_exp else (MODES[mode], MODES[mode])
    pef = TAIL_FORMS[pef] if baseline == "tail" else pef
    if mode == "alpha":
        pef, exp = (partial(f, alpha=alpha) for f in (pef, exp))
    if mode == "forward" and kl_estimator == "k1":
        pef = f_divergences.forward_kl_k1
    return Terms(pef if on_pef else None, exp if on_exp else None)
