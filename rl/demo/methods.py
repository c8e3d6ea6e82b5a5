"""The methods of the demo and the study: how each differs from its file in verl/dph/config/method."""

from dataclasses import dataclass

from rl.common.errors import UserError
from rl.configuration import ACTOR

CAP = "algorithm.success_cap"
ANCHOR_FILES = "['${launch.folder}/task/anchor.parquet']"


# The stores besides the default one, by name: the overrides of get_correct_data_tensor. All are of one pre-sampling,
# except for the anchor's.
ANCHOR = "anchor"
STORES = {
    # Every correct sample of every solved prompt.
    "solved_all": ("data.sft_coverage=solved", "data.sft_responses_per_prompt=all"),
    # Every sample of prompts about a database that is not explored.
    ANCHOR: (
        *("data.sft_coverage=all", "data.sft_responses_per_prompt=all", f"data.sft_files={ANCHOR_FILES}"),
        *("data.sft_wrong_files=null", "data.sft_samples=${launch.folder}/data/generate_anchor/0.jsonl"),
    ),
}


@dataclass(frozen=True)
class Method:
    """A row of the report.

    Attributes:
        method: a file of verl/dph/config/method.
        eta: in place of the file's.
        family: methods of one family differ only in eta (rl/evaluation/spec.py).
        store: one of STORES; None for the default store.
        overrides: further ones, of Hydra.
    """

    label: str
    method: str
    eta: float | None = None
    family: str | None = None
    store: str | None = None
    overrides: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """All overrides of the method's file."""
        words = [] if self.eta is None else [f"{ACTOR}.sft_loss_coeff={self.eta}"]
        return [*words, *([in_store(self.store)] if self.store else []), *self.overrides]

    @property
    def stores(self) -> list[str]:
        """Those of STORES that it reads."""
        return [name for name in STORES if any(word.endswith(f"/{name}/pef.pt") for word in self.words)]

    @property
    def definition(self) -> str:
        """The method's file and overrides: what a method of two studies must have in common."""
        return " ".join([self.method, *self.words])


def in_store(name: str, key: str = "sft_pt") -> str:
    """The override that names the file of one of STORES."""
    return f"data.{key}=${{launch.data}}/{name}/pef.pt"


METHODS = {
    "grpo": Method("GRPO", "grpo"),
    "dapo": Method("DAPO", "dapo"),
    "dapo_exp": Method("DAPO on D_exp", "js_kl", 0, "DPH-JS"),
    "rkl": Method("RKL", "reverse_kl", 0.1, "RKL"),
    "dph_f": Method("DPH-F", "forward_kl", 0.5, "DPH-F"),
    "dph_js": Method("DPH-JS", "js_kl", 0.5, "DPH-JS"),
    "dph_js_def": Method("DPH-JS definition", "js_definition", 0.5, "DPH-JS definition"),
    "dph_alpha": Method("DPH alpha 0.2", "alpha", 0.5, "DPH alpha 0.2"),
    # Rehearsal of all that was solved (docs/explanation/method.md, coverage), and the same without RL.
    "dph_f_solved": Method("DPH-F solved", "forward_kl", 0.2, "DPH-F solved", "solved_all"),
    "rft_solved": Method(
        *("RFT", "forward_kl", 0.2, None, "solved_all"),
        overrides=(f"{ACTOR}.policy_loss_coeff=0", "actor_rollout_ref.rollout.n=1"),
    ),
    # MaxRL, with the paper's D_pef, the recipe (docs/howto/train.md), and the recipe with all prompts explored.
    "maxrl": Method("MaxRL", "maxrl"),
    "maxrl_dph_js": Method("MaxRL with DPH-JS", "js_kl", 0.5, overrides=("algorithm.adv_estimator=maxrl",)),
    "recipe": Method("Recipe", "recipe", 0.2, None, "solved_all"),
    "recipe_explore_all": Method(
        *("Recipe on all prompts", "recipe", 0.1, None, "solved_all"), overrides=("launch.explored=all",)
    ),
    # The anchor beside the recipe's store.
    "recipe_anchor": Method(
        *("Recipe with anchor", "recipe", 0.2, None, "solved_all"),
        overrides=(in_store(ANCHOR, "sft_anchor_pt"), f"{ACTOR}.sft_anchor_coeff=0.1"),
    ),
    # The success cap (docs/explanation/method.md).
    "grpo_cap": Method("GRPO cap .6", "grpo_cap"),
    "dph_js_cap": Method("DPH-JS cap .75", "js_kl_cap", 0.5),
    "dph_f_solved_cap": Method(
        *("DPH-F solved, cap .6", "forward_kl", 0.2, None, "solved_all"), overrides=(f"{CAP}=0.6",)
    ),
    # Baselines (docs/explanation/baselines.md). A micro-batch is a whole mini-batch here, some 2,000 response tokens:
    # the papers' shares are 4 of them, and less than one. The bonus is ten times the default, as responses are short.
    "kl_cov": Method("KL-Cov", "kl_cov", overrides=(f"{ACTOR}.policy_loss.kl_cov_ratio=0.02",)),
    "clip_cov": Method("Clip-Cov", "clip_cov", overrides=(f"{ACTOR}.policy_loss.clip_cov_ratio=0.02",)),
    "entropy_bonus": Method("Entropy bonus", "entropy_bonus", overrides=(f"{ACTOR}.entropy_coeff=0.01",)),
    "grpo_passk": Method("Pass@k GRPO", "grpo_passk"),
    "pkpo": Method("PKPO", "pkpo"),
    "nsr": Method("NSR", "nsr"),
    "w_reinforce": Method("W-REINFORCE", "w_reinforce"),
}
# The methods with MaxRL, and those that a study trains longer too.
OF_RECIPE = ("maxrl", "maxrl_dph_js", "recipe", "recipe_anchor")
LONG = ("grpo", "dph_js", *OF_RECIPE, "recipe_explore_all")


def method_names(text: str, task: str) -> list[str]:
    """The distinct names of a comma-separated list.

    Args:
        task: the model's; only the one of SQL writes the anchor's prompts (rl/demo/task.py).
    """
    names = list(dict.fromkeys(name for name in text.split(",") if name))
    for name in names or ["nothing"]:
        if name not in METHODS:
            raise UserError(f"--methods {text!r}: {name} is not a method; use some of {', '.join(METHODS)}.")
        if task != "sql" and ANCHOR in METHODS[name].stores:
            raise UserError(f"--methods {text!r}: {name} needs files that only the SQL task has: leave it out.")
    return names
