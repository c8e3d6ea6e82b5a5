"""The models of the demo: each with its task, its experiment and its sizes."""

from dataclasses import dataclass

from rl.configuration.names import has_bf16
from rl.demo.word_problems import STYLES


@dataclass(frozen=True)
class DemoModel:
    """What `--model` chooses.

    Attributes:
        name: on the command line.
        about: one line of the help.
        experiment: a file of verl/dph/config/experiment.
        task: its kind (rl/demo/task.py).
        base: the module that makes the base model.
        title: of the stage that makes the base model.
        train, in_domain, out_of_domain: the numbers of questions.
        methods: names of rl/demo/methods.py that it trains unless told: GRPO and the recipe of docs/howto/train.md.
        steps: training steps of each method.
        folder: the default folder of the output.
        summary: the report's first paragraph, with {title}, {k}, {train}, {threshold}, {steps}, {prompts} and {n}.
        caveats: the report's, without those on methods that were not run.
        base_seconds, sample_seconds, step_seconds: expected on two cores, for the progress bar: of the stage that makes
            the base model, of a sample and of a training step.
        at_once: programs at a time on a CPU. A single program has both cores.
        bf16: whether a CPU that multiplies in bfloat16 does so.
        pretrained: whether MODEL_PATH may name another model that is fine-tuned in its place.
        styles: the first words of responses that the report counts as styles; None for SQL, which has its own.
        has_expert: whether its task has responses from elsewhere (rl/demo/methods.py, EXPERT).
        has_checks: whether the exit code is 1 if a promise is not held (rl/evaluation/analysis/promises.py).
    """

    name: str
    about: str
    experiment: str
    task: str
    base: str
    title: str
    train: int
    in_domain: int
    out_of_domain: int
    methods: str
    steps: int
    folder: str
    summary: str
    caveats: tuple[str, ...]
    base_seconds: float
    sample_seconds: float
    step_seconds: float
    at_once: int = 2
    bf16: bool = False
    pretrained: bool = False
    styles: tuple[str, ...] | None = None
    has_expert: bool = True
    has_checks: bool = True

    @property
    def device(self) -> str:
        """The file of verl/dph/config/device, if the user names none."""
        return "cpu_bf16" if self.bf16 and has_bf16() else "cpu"


def _road(others: str, rewards: str) -> str:
    return (
        "The model was pre-sampled {k} times on {train} prompts; those with at least {threshold} correct responses, "
        f"answered correctly once more, are rehearsed (D_pef), {others}. Every method then trained {{steps}} steps of "
        f"{{prompts}} prompts x {{n}} samples with verl, on rewards from {rewards}."
    )


TINY = DemoModel(
    name="tiny",
    about="250 thousand parameters, trained from scratch, writes SQL",
    experiment="demo",
    task="sql",
    base="rl.demo.base_model",
    title="Base model, from scratch",
    train=384,
    in_domain=96,
    out_of_domain=96,
    methods="grpo,recipe",
    steps=60,
    folder="outputs/demo",
    summary="A base model of 250 thousand parameters writes SQL in five styles for questions about two databases (in "
    "domain) and two that training never sees (out of domain). Half of the questions are ambiguous, in fine-tuning, "
    "training and tests alike: “figures” means one column in 70 % of them and another in 30 %, and nothing says which. "
    + _road("the others explored (D_exp)", "executed queries"),
    caveats=("docs/explanation/study.md has the means of several seeds, of 60 steps on 384 questions.",),
    base_seconds=70,
    sample_seconds=0.006,
    step_seconds=3,
)
SMOLLM2 = DemoModel(
    name="smollm2",
    about="SmolLM2-135M-Instruct (Apache-2.0), fine-tuned briefly, solves word problems",
    experiment="smollm2_math",
    task="math",
    base="rl.demo.pretrained",
    title="SmolLM2-135M-Instruct (Apache-2.0, dequantized from 4 bits), fine-tuned briefly",
    train=192,
    in_domain=64,
    out_of_domain=16,
    methods="grpo,recipe",
    steps=40,
    folder="outputs/smollm2",
    summary="{title}, solves word problems with whole numbers and writes the solution in one of three ways; out of "
    "domain the problems are about things that training never sees. Half of the problems are ambiguous: the answer is "
    "the second person's number in 70 % of them and both persons' in 30 %, and nothing says which. "
    + _road("the others explored (D_exp), except those without a correct response", "the answer in the box"),
    caveats=("Learning rate and eta have not been tuned for this model.",),
    # Of the run in docs/tutorials/demo.md.
    base_seconds=430,
    sample_seconds=0.07,
    step_seconds=32,
    at_once=1,
    bf16=True,
    pretrained=True,
    styles=tuple(STYLES),
    has_expert=False,
    has_checks=False,
)
MODELS = {model.name: model for model in (TINY, SMOLLM2)}
