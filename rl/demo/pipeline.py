"""The demo: train and evaluate a few methods on the tiny task, and report."""

import json
from pathlib import Path

from rl.demo.experiment import (
    ETA,
    METHODS,
    SAMPLES_PER_PROMPT,
    SETTINGS,
    THRESHOLD,
    TRAIN_PROMPTS,
    Experiment,
    sample_files,
)
from rl.demo.scorer_process import ScorerServer

SUMMARY = (
    "A base model of 250 thousand parameters writes SQL in five styles for questions about two databases (in domain) "
    "and two that training never sees (out of domain). It was pre-sampled {k} times on {prompts} prompts; those with "
    "at least {threshold} correct responses, answered correctly once more, are rehearsed (D_pef), the others explored "
    "(D_exp). Every method then trained {steps} steps of 16 prompts x 16 samples with verl, on rewards from executed "
    "queries."
)
CAVEATS = (
    "One seed and one base model: differences of Pass@k between methods are a few points here and depend on the "
    "setting; only the number of styles is stable.",
    "Much of the gain over GRPO comes from clip-higher and from training on hard prompts alone: compare with dapo_exp "
    "(make demo METHODS=grpo,dapo_exp,dph_js), which differs from DPH-JS only by the divergence.",
)


class Demo(Experiment):
    """The demo in one folder.

    Args:
        out: the folder, absolute.
        methods: names of METHODS.
        steps: training steps per method.
        seed: of sampling, data order and training.
    """

    def __init__(self, out: Path, methods: list[str], steps: int, seed: int):
        super().__init__(out, steps, seed)
        self.methods = methods

    def run(self) -> list[str]:
        """Run all stages and write the report. Returns one sentence per failed check."""
        from rl.evaluation.analysis.claims import assert_styles

        pipeline = self.pipeline
        self.make_task_and_model()
        with ScorerServer(self.out, self.task / "databases") as address:
            # Not part of a stage's settings: the port changes every time.
            pipeline.environment["DPH_SCORER"] = address
            self.prepare_data()
            for method in self.methods:
                pipeline.run(self.train(method, METHODS[method], self.seed))
            models = {"base": self.model} | {method: self.checkpoint(method) for method in self.methods}
            needs = ["model", *(f"train_{method}" for method in self.methods)]
            pipeline.run(self.evaluate("evaluate", "Evaluation", models, needs, again=True))

        return assert_styles(self._report())

    def _report(self) -> dict:
        from rl.evaluation.report.write import write_report
        from rl.evaluation.spec import read_spec

        methods: dict[str, dict[str, object]] = {}
        for name in ("base", "base_again", *self.methods):
            methods[name] = {"splits": sample_files(name)}
            if name in METHODS:
                methods[name] |= METHODS[name].description() | {"training_log": f"runs/{name}/metrics"}
        spec = {
            "title": "DPH-RL demo",
            "summary": SUMMARY.format(
                k=SAMPLES_PER_PROMPT, prompts=TRAIN_PROMPTS, threshold=THRESHOLD, steps=self.steps
            ),
            "methods": methods,
            "caveats": list(CAVEATS),
            "settings": SETTINGS | {"eta": ETA, "seed": self.seed, "steps": self.steps},
            "seconds": {name: round(seconds, 1) for name, seconds in self.pipeline.seconds.items()},
        }
        path = self.out / "spec.json"
        path.write_text(json.dumps(spec, indent=2) + "\n")

        return write_report(read_spec(path), self.out)
