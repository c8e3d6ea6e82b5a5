"""The methods of the demo and the study: launch scripts with their arguments, and the stores that they rehearse."""

from dataclasses import dataclass, field

from rl.common.errors import UserError

# The store of responses from elsewhere (expert.py).
EXPERT = "expert"
# D_pef stores beside the default one, of the same pre-sampling: variables of get_correct_data_tensor.sh.
STORES = {
    "mastered_all": {"SFT_COVERAGE": "mastered", "SFT_RESPONSES_PER_PROMPT": "all"},
    "solved_one": {"SFT_COVERAGE": "solved", "SFT_RESPONSES_PER_PROMPT": "1"},
    "solved_all": {"SFT_COVERAGE": "solved", "SFT_RESPONSES_PER_PROMPT": "all"},
    EXPERT: {},
}
# The stage that a script needs, if not the store: those that need the model alone read neither D_exp nor D_pef.
NEEDS = dict.fromkeys(
    ("grpo", "dapo", "reverse_kl", "kl_cov", "clip_cov", "entropy_bonus", "grpo_passk", "pkpo", "nsr", "w_reinforce"),
    "model",
) | {"zero_success": "unsolved"}


@dataclass(frozen=True)
class Method:
    """A row of the report: its launch script and the script's arguments after the run's name, the first of them eta.

    Methods of one family differ only in eta (evaluation/spec.py).

    Attributes:
        store: one of STORES; None for the default store.
        settings: variables of the script.
    """

    label: str
    script: str
    arguments: tuple[str, ...] = ()
    family: str | None = None
    store: str | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def description(self) -> dict[str, str | float]:
        """The method's label, family and eta in a report's specification."""
        if not self.family:
            return {"label": self.label}
        return {"label": self.label, "family": self.family, "eta": float(self.arguments[0])}


METHODS = {
    "grpo": Method("GRPO", "grpo.sh"),
    "dapo": Method("DAPO", "dapo.sh"),
    "dapo_exp": Method("DAPO on D_exp", "js_kl.sh", ("0",), "DPH-JS"),
    "rkl": Method("RKL", "reverse_kl.sh", ("0.1",), "RKL"),
    "dph_f": Method("DPH-F", "forward_kl.sh", ("0.5",), "DPH-F"),
    "dph_js": Method("DPH-JS", "js_kl.sh", ("0.5",), "DPH-JS"),
    "dph_js_def": Method("DPH-JS definition", "js_definition.sh", ("0.5",), "DPH-JS definition"),
    "dph_alpha": Method("DPH alpha 0.2", "alpha.sh", ("0.5", "0.2"), "DPH alpha 0.2"),
    # Rehearsal of all that was solved (docs/explanation/method.md, coverage) at three eta, and its controls: the
    # paper's D_pef at the same eta, the other two stores, all prompts explored, and no RL. eta 0 is dapo_exp.
    "dph_f_solved": Method("DPH-F solved", "forward_kl.sh", ("0.2",), "DPH-F solved", "solved_all"),
    "dph_f_solved_eta005": Method("DPH-F solved, eta .05", "forward_kl.sh", ("0.05",), "DPH-F solved", "solved_all"),
    "dph_f_solved_eta05": Method("DPH-F solved, eta .5", "forward_kl.sh", ("0.5",), "DPH-F solved", "solved_all"),
    "dph_f_eta02": Method("DPH-F, eta .2", "forward_kl.sh", ("0.2",), "DPH-F"),
    "dph_f_solved_one": Method("DPH-F solved, one each", "forward_kl.sh", ("0.2",), None, "solved_one"),
    "dph_f_mastered_all": Method("DPH-F mastered, all", "forward_kl.sh", ("0.2",), None, "mastered_all"),
    "dph_f_solved_explore_all": Method(
        "DPH-F solved, all explored", "forward_kl.sh", ("0.2",), None, "solved_all", {"EXPLORED": "all"}
    ),
    "rft_solved": Method(
        "RFT", "forward_kl.sh", ("0.2",), None, "solved_all", {"POLICY_LOSS_COEFF": "0", "ROLLOUT_N": "1"}
    ),
    # Baselines (docs/explanation/baselines.md). A micro-batch is a whole mini-batch here, some 2,000 response tokens:
    # the papers' shares are 4 of them, and less than one. The bonus is ten times the script's, as responses are short.
    "kl_cov": Method("KL-Cov", "kl_cov.sh", settings={"KL_COV_RATIO": "0.02"}),
    "clip_cov": Method("Clip-Cov", "clip_cov.sh", settings={"CLIP_COV_RATIO": "0.02"}),
    "entropy_bonus": Method("Entropy bonus", "entropy_bonus.sh", settings={"ENTROPY_COEFF": "0.01"}),
    "grpo_passk": Method("Pass@16 GRPO", "grpo_passk.sh"),
    "pkpo": Method("PKPO", "pkpo.sh"),
    "nsr": Method("NSR", "nsr.sh"),
    "w_reinforce": Method("W-REINFORCE", "w_reinforce.sh"),
    "zero_success": Method("GRPO on unsolved", "zero_success.sh"),
    "chord_mu": Method("CHORD-mu", "chord_mu.sh", store=EXPERT),
}
# The study's default: what the paper compares.
PAPER_METHODS = ("grpo", "dapo", "dapo_exp", "rkl", "dph_f", "dph_js", "dph_js_def", "dph_alpha")


def method_names(text: str) -> list[str]:
    """The distinct names of a comma-separated list.

    Raises:
        UserError: a name is not one of METHODS, or there is none.
    """
    names = list(dict.fromkeys(name for name in text.split(",") if name))
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        raise UserError(
            f"--methods {text!r}: {unknown or 'nothing'} is not a method; use some of {', '.join(METHODS)}."
        )
    return names
