"""The divergences to the initial policy, one for each `sft_loss_mode`.

The setting's choices and help, its checks, the losses, their tests and the table in docs/explanation/method.md derive
from DIVERGENCES. verl/dph/divergence/f_divergences.py has the functions; this package cannot import it.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Divergence:
    """A divergence to the initial policy.

    Attributes:
        mode: the value of sft_loss_mode.
        definition: the formula of the whole divergence, with M = (pi_theta + pi_ref) / 2.
        function: the name of the function that computes it.
        on: the rows on which sft_loss_form=auto computes it. "both": one half on D_pef and the other on D_exp;
            "either": on D_pef if the run has a store, else on D_exp.
        halves: with on="both", the functions on D_pef and on D_exp.
        has_tail_form: whether f'(inf) is finite; a function <function>_tail then serves sft_baseline=tail.
        reads: the actor's settings that only this mode reads.
        eta: the paper's range of sft_loss_coeff.
        source: the publication that defines it.
    """

    mode: str
    definition: str
    function: str
    on: Literal["pef", "exp", "both", "either"] = "pef"
    halves: tuple[str, str] | None = None
    has_tail_form: bool = False
    reads: tuple[str, ...] = ()
    eta: str = "not in the paper"
    source: str = "paper, Appendix C"

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of its non-negative functions."""
        return (self.function, *(self.halves or ()))


DIVERGENCES = {
    divergence.mode: divergence
    for divergence in (
        Divergence(
            "forward",
            "KL(pi_ref || pi_theta), DPH-F",
            "forward_kl",
            reads=("sft_kl_estimator",),
            eta="0.01 to 0.05",
        ),
        Divergence(
            "js",
            "KL(pi_ref || M) + KL(pi_theta || M), DPH-JS by its definition",
            "js_doubled",
            on="both",
            halves=("kl_ref_mixture", "kl_policy_mixture"),
            has_tail_form=True,
            reads=("sft_js_exp_weight",),
            eta="0.05 to 0.2",
            source="paper, Appendix E, equations 15 to 17",
        ),
        Divergence(
            "js_low_var",
            "KL(pi_ref || M) + KL(pi_theta || M), DPH-JS in its generator form",
            "js_doubled",
            has_tail_form=True,
            eta="0.05 to 0.2",
        ),
        Divergence(
            "reverse_kl", "KL(pi_theta || pi_ref), the RKL baseline", "reverse_kl", on="exp", eta="0.01 to 0.05"
        ),
        Divergence(
            "alpha",
            "the alpha divergence, between the reverse KL (alpha near 0) and the forward KL (alpha near 1)",
            "alpha_divergence",
            on="either",
            has_tail_form=True,
            reads=("alpha_coeff",),
            eta="0.01 to 0.05",
        ),
        Divergence(
            "hellinger",
            "1/2 sum (sqrt pi_theta - sqrt pi_ref)^2",
            "hellinger",
            has_tail_form=True,
            source="Hellinger 1909",
        ),
        Divergence("chi_square", "sum (pi_theta - pi_ref)^2 / pi_ref", "chi_square", source="Pearson 1900"),
    )
}
