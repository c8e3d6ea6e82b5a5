"""The divergences to the initial policy, one for each `sft_loss_mode`.

The setting's choices, its checks and the table in docs/explanation/method.md derive from DIVERGENCES. The functions are
in verl/dph/objective/terms.py.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Divergence:
    """A divergence to the initial policy.

    Attributes:
        mode: the value of sft_loss_mode.
        definition: the formula of the whole divergence, with M = (pi_theta + pi_ref) / 2.
        on: the rows on which sft_loss_form=auto computes it. "both": one half on D_pef and the other on D_exp;
            "either": on D_pef if the run has a store, else on D_exp.
        reads: the actor's settings that only this mode reads.
        eta: the paper's range of sft_loss_coeff.
        source: the publication that defines it.
    """

    mode: str
    definition: str
    on: Literal["pef", "exp", "both", "either"] = "pef"
    reads: tuple[str, ...] = ()
    eta: str = "not in the paper"
    source: str = "paper, Appendix C"


DIVERGENCES = {
    divergence.mode: divergence
    for divergence in (
        Divergence(
            "forward",
            "KL(pi_ref || pi_theta), DPH-F",
            reads=("sft_kl_estimator",),
            eta="0.01 to 0.05",
        ),
        Divergence(
            "js",
            "KL(pi_ref || M) + KL(pi_theta || M), DPH-JS by its definition",
            on="both",
            reads=("sft_js_exp_weight",),
            eta="0.05 to 0.2",
            source="paper, Appendix E, equations 15 to 17",
        ),
        Divergence(
            "js_low_var",
            "KL(pi_ref || M) + KL(pi_theta || M), DPH-JS in its generator form",
            eta="0.05 to 0.2",
        ),
        Divergence("reverse_kl", "KL(pi_theta || pi_ref), the RKL baseline", on="exp", eta="0.01 to 0.05"),
        Divergence(
            "alpha",
            "the alpha divergence, between the reverse KL (alpha near 0) and the forward KL (alpha near 1)",
            on="either",
            reads=("alpha_coeff",),
            eta="0.01 to 0.05",
        ),
        Divergence(
            "hellinger",
            "1/2 sum (sqrt pi_theta - sqrt pi_ref)^2",
            source="Hellinger 1909",
        ),
        Divergence("chi_square", "sum (pi_theta - pi_ref)^2 / pi_ref", source="Pearson 1900"),
    )
}
