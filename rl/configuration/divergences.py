"""The divergences to the initial policy, one for each `sft_loss_mode`.

The setting's choices and help, its checks, the losses, their tests and the table of docs/explanation/method.md derive
from DIVERGENCES. The functions are in verl/dph/divergence/f_divergences.py, which this package cannot import.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Divergence:
    """A mode.

    Attributes:
        mode: the value of sft_loss_mode.
        definition: the whole divergence, M = (pi_theta + pi_ref) / 2.
        function: the name of the function that computes it.
        on: the rows that carry it with sft_loss_form=auto. With "both", D_pef carries one half and D_exp the other;
            with "either", D_pef carries it if the run has a store, else D_exp.
        halves: the functions on D_pef and on D_exp with on="both".
        has_tail_form: whether f'(inf) is finite, so that there is a function <function>_tail for sft_baseline=tail.
        reads: the settings of the actor that only this mode reads.
        eta: the paper's range of sft_loss_coeff.
        source: where it is defined.
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


def modes_with_tail_form() -> str:
    """Their names, for a sentence."""
    *others, last = (divergence.mode for divergence in DIVERGENCES.values() if divergence.has_tail_form)
    return f"{', '.join(others)} and {last}"


def definitions() -> str:
    """Every mode with its definition, for a sentence."""
    return "; ".join(f"{divergence.mode}: {divergence.definition}" for divergence in DIVERGENCES.values())
