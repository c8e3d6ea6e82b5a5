"""The divergences to the initial policy: on which rows each is computed, and the settings that only it reads.

docs/explanation/method.md has their formulas. The functions are in verl/dph/objective/terms.py.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Divergence:
    """
    Attributes:
        on: the rows on which sft_loss_form=auto computes it. "both": one half on D_pef and the other on D_exp;
            "either": on D_pef if the run has a store, else on D_exp.
        reads: the actor's settings that only this mode reads.
    """

    on: Literal["pef", "exp", "both", "either"] = "pef"
    reads: tuple[str, ...] = ()


# By the value of sft_loss_mode.
DIVERGENCES = {
    "forward": Divergence(reads=("sft_kl_estimator",)),
    "js": Divergence(on="both", reads=("sft_js_exp_weight",)),
    "js_low_var": Divergence(),
    "reverse_kl": Divergence(on="exp"),
    "alpha": Divergence(on="either", reads=("alpha_coeff",)),
    "hellinger": Divergence(),
    "chi_square": Divergence(),
}
