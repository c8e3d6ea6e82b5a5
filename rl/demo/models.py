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
        train, in_domain, out_of_domain: the numbers of questions.
        steps: training steps of each method.
        folder: the default folder of the output.
        summary: what the report says of model and task.
        caveat: the report's, besides those on its methods.
        minutes: expected on two idle cores: of everything before the first method, and of a method.
        at_once: programs at a time on a CPU. A single program has both cores.
        pretrained: whether the model is a pretrained one, in whose place MODEL_PATH may name another. Where the CPU
            multiplies in bfloat16, a pretrained model does so, and nothing is promised of it (promises.py).
        styles: the first words of responses that the report counts as styles; None for SQL, which has its own.
    """

    name: str
    about: str
    experiment: str
    task: str
    base: str
    train: int
    in_domain: int
    out_of_domain: int
    steps: int
    folder: str
    summary: str
    caveat: str
    minutes: tuple[float, float]
    at_once: int
    pretrained: bool
    styles: tuple[str, ...] | None = None

    @property
    def device(self) -> str:
        """The file of verl/dph/config/device, if the user names none."""
        return "cpu_bf16" if self.pretrained and has_bf16() else "cpu"


TINY = DemoModel(
    name="tiny",
    about="250 thousand parameters, trained from scratch, writes SQL",
    experiment="demo",
    task="sql",
    base="rl.demo.base_model",
    train=384,
    in_domain=96,
    out_of_domain=96,
    steps=60,
    folder="outputs/demo",
    summary="A base model of 250 thousand parameters writes SQL in five styles for questions about two databases (in "
    "domain) and two that training never sees (out of domain). Half of the questions are ambiguous, in fine-tuning, "
    "training and tests alike: “figures” means one column in 70 % of them and another in 30 %, and nothing says which.",
    caveat="docs/explanation/study.md has the means of several seeds, of 60 steps on 384 questions.",
    minutes=(2.5, 2),
    at_once=2,
    pretrained=False,
)
SMOLLM2 = DemoModel(
    name="smollm2",
    about="SmolLM2-135M-Instruct (Apache-2.0, dequantized from 4 bits), fine-tuned briefly, solves word problems",
    experiment="smollm2_math",
    task="math",
    base="rl.demo.pretrained",
    train=192,
    in_domain=64,
    out_of_domain=16,
    steps=40,
    folder="outputs/smollm2",
    summary="The base model solves word problems with whole numbers and writes the solution in one of three ways; out "
    "of domain the problems are about things that training never sees. Half of the problems are ambiguous: the answer "
    "is the second person's number in 70 % of them and both persons' in 30 %, and nothing says which.",
    caveat="Learning rate and mini-batch were chosen on one seed of these problems; eta was not tuned.",
    minutes=(20, 35),
    at_once=1,
    pretrained=True,
    styles=tuple(STYLES),
)
MODELS = {model.name: model for model in (TINY, SMOLLM2)}
