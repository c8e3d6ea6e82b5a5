"""The experiment with one of the demo's models as stages in one folder."""

import argparse
import functools
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.cluster.scorer import temporary_scorer
from rl.common.cli import output_folder
from rl.common.errors import UserError
from rl.common.fingerprint import model_hash, tokenizer_hash
from rl.common.run_lock import sole_run
from rl.configuration import methods
from rl.configuration.names import CORRECT_NAME, EVALUATE, WRONG_NAME, has_gpu, is_cpu, override_value, quoted
from rl.data.training_run import LOGS, checkpoint_folder
from rl.demo.methods import ANCHOR, ANCHOR_FILES, LONG, METHODS, STORES, Method, in_store, method_names
from rl.demo.models import MODELS, TINY, DemoModel
from rl.demo.stages import Pipeline, Stage

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from rl.evaluation.spec import ReportSpec

SAMPLES_PER_PROMPT, EVAL_SAMPLES = 8, 32
EVALUATION_SEED = 100  # added to the seed, so that an evaluation does not repeat the pre-sampling
SPLITS = ("in_domain", "out_of_domain")
# Keys of extra_info whose kinds of questions have results of their own.
GROUPS = ["ambiguous", "family"]
# Files of verl/dph/config/device.
DEVICES = ("cpu", "cpu_bf16", "cuda", "cuda_hf")
# The variables of every program. None of them changes a result.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "TOKENIZERS_PARALLELISM": "false",
    # TransferQueue sets torch's threads to this for every put and get: by default to 8, with two warnings in the log.
    "TQ_NUM_THREADS": "1",
    # The heap keeps the pages of an update's tensors. Without this, each step faults 50,000 pages in again.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}


def add_options(parser: argparse.ArgumentParser, methods: str, folders: Mapping[str, str]) -> None:
    """The options of `chosen`.

    Args:
        methods: the default, separated by commas.
        folders: of the output, by the model's name.
    """
    models = "; ".join(f"{name}: {model.about}" for name, model in MODELS.items())
    known, steps = ", ".join(METHODS), " or ".join(str(model.steps) for model in MODELS.values())
    add = parser.add_argument
    add("--model", choices=MODELS, default=TINY.name, help=f"{models} (default: %(default)s)")
    add("--out", type=output_folder, help=f"output folder (default: {' or '.join(folders.values())})")
    add("--methods", default=methods, help=f"comma-separated, of {known} (default: %(default)s)")
    add("--steps", type=at_least_1, help=f"training steps of each method (default: {steps})")


def chosen(options: argparse.Namespace, folders: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of Experiment that the options and MODEL_PATH state."""
    model = MODELS[options.model]
    model_path = os.environ.get("MODEL_PATH") if model.pretrained else None
    ignore_variables()
    return {
        "out": (options.out or Path(folders[model.name])).resolve(),
        "methods": method_names(options.methods, model.task),
        "steps": options.steps or model.steps,
        "model": model,
        "model_path": model_path,
    }


def whole(text: str, least: int = 0) -> int:
    """The `type` of an option that is a whole number."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
    return int(text)


at_least_1 = functools.partial(whole, least=1)


def ignore_variables() -> None:
    """Forget the launch scripts' variables (docs/reference/cli.md) that the user has set: the demo has its own."""
    from rl.configuration.old_variables import REPLACED_BY
    from rl.configuration.variables import known_variables

    for name in {*known_variables(), *REPLACED_BY} & os.environ.keys():
        del os.environ[name]


@functools.cache
def settings(method: str, experiment: str = TINY.experiment) -> "DictConfig":
    """The settings that the files of a method and an experiment state; interpolations resolve when they are read."""
    from rl.configuration.variables import merged

    return merged([methods.methods()[method], methods.experiment(experiment)])


def scorer_config(experiment: str = TINY.experiment) -> Path:
    """The scorer's configuration of an experiment."""
    return Path(settings("grpo", experiment).launch.scorer_config)


@dataclass(frozen=True)
class Draw:
    """What has a seed of its own: the split, the stores (all from the same samples), training runs and evaluations.

    Attributes:
        folder: of the files of split and stores.
        suffix: of the names of stages and runs.
        words: overrides for the programs that read or write the files.
    """

    folder: Path
    seed: int
    suffix: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A row of the tables. `trained` is the method's name; its training run may have a row after fewer steps too."""

    name: str
    trained: str
    label: str
    steps: int


class Experiment:
    """Task, base model, pre-sampling, split, stores, training runs and their evaluations, in one folder.

    Args:
        out: the folder, absolute.
        methods: names of METHODS.
        steps: training steps per run.
        seed: of the pre-sampling.
        device: one of DEVICES, by default the model's.
        model: one of MODELS.
        model_path: a pretrained model in place of the model's own.
        at_once: programs at a time on a CPU, by default the model's; on a GPU there is one.
        base_seed: of the base model.
    """

    long_steps: Sequence[int] = ()  # after which the methods of LONG are evaluated too

    def __init__(
        self,
        out: Path,
        methods: list[str],
        steps: int,
        seed: int,
        *,
        device: str | None = None,
        model: DemoModel = TINY,
        model_path: str | None = None,
        at_once: int | None = None,
        base_seed: int = 0,
    ):
        self.device = device or model.device
        self.model, self.model_path, self.base_seed = model, model_path, base_seed
        self.out, self.methods, self.steps, self.seed = out, methods, steps, seed
        self.in_domain = model.in_domain
        self.on_cpu = is_cpu(self.device)
        # Two programs keep two cores busy, but only one can use a GPU.
        self.at_once = (at_once or model.at_once) if self.on_cpu else 1
        # Processes that sample, and threads of an update. The last digits depend on them, so at_once must not count.
        alone = not self.on_cpu or model.at_once == 1
        self.replicas = 2 if self.on_cpu and alone else 1
        self.threads = 2 if alone else 1
        # Two programs with a thread each take a quarter less time for SmolLM2's forward and backward than one with two.
        self.training_threads = self.threads if self.at_once == 1 else 1
        self.task, self.base, self.data = out / "task", out / "model", out / "data"
        self._presampled = self.data / "generate_data" / "0.jsonl"
        self.pipeline = Pipeline(out, ENVIRONMENT)

    @cached_property
    def judged_by(self) -> str:
        """What decides the scorer's verdicts."""
        from rl.scorer.config_file import load_settings

        # Which databases do not count; the task's own may not be there yet.
        sql = {"database_path": str(self.out)}
        return load_settings(scorer_config(self.model.experiment), sql=sql).verdict_sha256

    def run_stages(self, stages: Sequence[Stage]) -> None:
        """Run the stages with a scorer beside them."""
        # Before the base model is trained, for minutes.
        if not self.on_cpu and not has_gpu():
            raise UserError(f"--device {self.device} needs an NVIDIA GPU, and this machine has none: leave it out.")
        config, databases = scorer_config(self.model.experiment), self.task / "databases"
        databases.mkdir(parents=True, exist_ok=True)
        log = self.out / "logs" / "scorer.log"
        with sole_run(self.out, "name another folder (--out)"), temporary_scorer(config, databases, log) as address:
            # Not part of a stage's settings: the port changes every time.
            self.pipeline.environment["DPH_SCORER"] = address
            self.pipeline.run(stages, at_once=self.at_once)

    def rows(self) -> list[Row]:
        """The methods, then again those that train longer."""
        rows = [Row(name, name, METHODS[name].label, self.steps) for name in self.methods]
        return rows + [
            Row(f"{name}_{steps}", name, f"{METHODS[name].label}, {steps} steps", steps)
            for steps in self.long_steps
            for name in self.methods
            if name in LONG
        ]

    def stages_of(self, draw: Draw) -> list[Stage]:
        """A seed's stages; the first that can start does so. The base model's evaluation fills the gap at the end."""
        kept = {name: [row.steps for row in self.rows() if row.trained == name] for name in self.methods}
        trainings = [self.train(f"{name}{draw.suffix}", METHODS[name], draw, kept[name]) for name in self.methods]
        evaluations = [self._evaluate_row(row, draw) for row in self.rows()]
        # Twice: the second time shows the noise.
        base = self._evaluate(f"base{draw.suffix}", "base", self.base, "model", draw)
        return [*self._prepare_data(draw), *trainings, *evaluations, base]

    def prepare_model(self) -> list[Stage]:
        """The task, the base model and its samples, also of the anchor's prompts if one of the methods needs them."""
        made, options = self.model, [f"--model={self.model_path}"] if self.model_path else []
        sizes = (f"--train={made.train}", f"--eval={made.out_of_domain}", f"--eval-in-domain={self.in_domain}")
        task = Stage(
            "task",
            _python("rl.demo.task", f"--kind={made.task}", f"--out={self.task}", *sizes),
            outputs=[self.task / "sft.parquet"],
        )
        folders = (f"--task={self.task}", f"--out={self.base}")
        model = Stage(
            "model",
            _python(made.base, *folders, f"--seed={self.base_seed}", *options),
            environment={"OMP_NUM_THREADS": str(self.threads)},
            # Its folder may get another model.
            settings=[model_hash(source), tokenizer_hash(source)] if (source := self.model_path) else None,
            outputs=[self.base],
            needs=["task"],
        )
        stages = [task, model, self._presample("presample", [], self._presampled)]
        if self.anchored:
            path = self.data / f"generate_{ANCHOR}" / self._presampled.name
            words = [f"data.train_files={ANCHOR_FILES}", f"presample.output={override_value(path)}"]
            stages.append(self._presample("presample_anchor", words, path))
        return stages

    @property
    def anchored(self) -> bool:
        """Whether one of the methods rehearses the anchor."""
        return any(ANCHOR in METHODS[name].stores for name in self.methods)

    def _presample(self, name: str, words: list[str], path: Path) -> Stage:
        """Sample the base model into the file `path`."""
        return self.launch(
            name,
            "offline_sampling",
            [*words, f"presample.n={SAMPLES_PER_PROMPT}", f"launch.seed={self.seed}"],
            ranks=self.replicas,
            outputs=[path.parent],
            needs=["model"],
        )

    def _prepare_data(self, draw: Draw) -> list[Stage]:
        """The split and the stores that the methods need."""
        stages = [self._split(draw), self._store(draw, "store", [])]
        # The default store comes first: it finds the near-perfect prompts that are explored after all.
        stores = dict.fromkeys(store for name in self.methods for store in METHODS[name].stores)
        return stages + [self._store(draw, name, [in_store(name), *STORES[name]]) for name in stores]

    def _split(self, draw: Draw) -> Stage:
        """Split the training prompts by their samples into two files."""
        files = (f"--samples={self._presampled}", f"--data={self.task / 'train.parquet'}", f"--out={draw.folder}")
        experiment = (f"--experiment={self.model.experiment}", f"--n={SAMPLES_PER_PROMPT}")
        parts = [draw.folder / CORRECT_NAME, draw.folder / WRONG_NAME]
        command = _python("rl.cli", "split", *files, *experiment)
        return Stage(f"split{draw.suffix}", command, outputs=parts, needs=["presample"])

    def _store(self, draw: Draw, name: str, words: list[str]) -> Stage:
        """Write one of STORES, or the default one, for which alone new samples are drawn."""
        default = name == "store"
        return self.launch(
            ("store" if default else f"store_{name}") + draw.suffix,
            "get_correct_data_tensor",
            [*words, *draw.words, f"launch.seed={draw.seed}"],
            outputs=[draw.folder / "pef.pt", draw.folder / "pef.samples.jsonl"] if default else [draw.folder / name],
            needs=["presample_anchor"] if name == ANCHOR else [("split" if default else "store") + draw.suffix],
        )

    def train(self, name: str, method: Method, draw: Draw, kept: Sequence[int]) -> Stage:
        """The training run `name`, with the seed of its data.

        Args:
            kept: steps whose checkpoints are kept; the largest is the run's end.
        """
        run, total = self.out / "runs" / name, max(kept)
        words = [name, *method.words, *draw.words, f"launch.seed={draw.seed}", f"trainer.total_training_steps={total}"]
        if len(kept) > 1:
            words += [f"trainer.save_freq={math.gcd(*kept)}", "trainer.max_actor_ckpt_to_keep=null"]
        return self.launch(
            f"train_{name}",
            method.method,
            words,
            threads=self.training_threads,
            outputs=[run],
            needs=self._needed(method, draw),
        )

    def _needed(self, method: Method, draw: Draw) -> list[str]:
        """The last stages that must be done before a method can train."""
        if method.stores:
            return [f"store_{store}{draw.suffix}" for store in method.stores]
        launch = settings(method.method, self.model.experiment).launch
        # For math the baselines train on the two parts of the split.
        of_all = "explored" not in launch and launch.baseline_files == launch.train_files
        return ["model" if of_all else f"store{draw.suffix}"]

    def launch(
        self,
        name: str,
        method: str,
        words: list[str],
        *,
        ranks: int = 1,
        threads: int = 1,
        **more: Any,
    ) -> Stage:
        """A stage that starts a method as a launch script does.

        Args:
            words: the method's arguments.
            ranks: processes that train or sample.
            threads: of each.
            more: of the stage.
        """
        from omegaconf import OmegaConf

        folder = f"launch.folder={override_value(self.out)}"
        here = (f"experiment={self.model.experiment}", folder, f"device={self.device}")
        command = _python("rl.launch", method, *words, *here, f"trainer.n_gpus_per_node={ranks}")
        variables = {"OMP_NUM_THREADS": str(threads)}
        decides = OmegaConf.to_container(settings(method, self.model.experiment), resolve=False)
        decides |= {"scorer": self.judged_by}
        return Stage(name, command, environment=variables, settings=decides, **more)

    def _evaluate_row(self, row: Row, draw: Draw) -> Stage:
        run, name = f"{row.trained}{draw.suffix}", f"{row.name}{draw.suffix}"
        model = checkpoint_folder(self.out / "runs" / run, row.steps) / "actor" / "huggingface"
        return self._evaluate(name, name, model, f"train_{run}", draw)

    def _evaluate(self, name: str, model: str, path: Path, need: str, draw: Draw) -> Stage:
        """Sample a model into OUT/eval/<name>: a folder for each evaluation, because two may run at once."""
        splits = {split: self.task / f"test_{split}.parquet" for split in SPLITS}
        folder, config = self.out / "eval" / name, settings("offline_sampling", self.model.experiment)
        command = _python(
            *(EVALUATE, f"device={self.device}", f"trainer.n_gpus_per_node={self.replicas}"),
            f"evaluate.models={_mapping({model: path})}",
            f"evaluate.splits={_mapping(splits)}",
            f"evaluate.output={override_value(folder)}",
            f"evaluate.n={EVAL_SAMPLES}",
            "evaluate.report=False",
            f"data.max_prompt_length={config.data.max_prompt_length}",
            f"data.max_response_length={config.data.max_response_length}",
            f"actor_rollout_ref.rollout.max_model_len={config.actor_rollout_ref.rollout.max_model_len}",
            f"actor_rollout_ref.rollout.top_p={config.actor_rollout_ref.rollout.top_p}",
            # With the same random numbers their chance would be in all seeds alike, and no interval would show it.
            f"actor_rollout_ref.rollout.seed={draw.seed + EVALUATION_SEED}",
        )
        return Stage(
            f"evaluate_{name}",
            command,
            environment={"VERL_PLATFORM": "cpu"} if self.on_cpu else {},
            settings={"scorer": self.judged_by},
            outputs=[folder],
            needs=[need],
        )

    def spec(self, draw: Draw, **content: Any) -> "ReportSpec":
        """The specification of the report on a seed.

        Args:
            content: further keys.
        """
        from rl.evaluation.spec import specification
        from rl.metrics.styles import BY_OPENING

        of_base = f"base{draw.suffix}"
        entries: dict[str, dict] = {name: {"splits": _sample_files(of_base, name)} for name in ("base", "base_again")}
        for row in self.rows():
            name, of = f"{row.name}{draw.suffix}", METHODS[row.trained]
            log = {"training_log": f"runs/{row.trained}{draw.suffix}/{LOGS}", "last_step": row.steps}
            family = {"family": of.family, "eta": of.eta} if of.family else {}
            entries[row.name] = {"label": row.label, "splits": _sample_files(name, name), **family, **log}
        asked = {split: f"task/test_{split}.parquet" for split in SPLITS}
        # The anchor is about one of the databases out of domain, and about no other.
        groups = [*GROUPS, "schema"] if self.anchored else GROUPS
        found = {"methods": entries, "questions": asked, "groups": groups, **content}
        if self.model.styles:
            found |= {"styles": list(self.model.styles), "styles_by": BY_OPENING}
        return specification(found, self.out)


def _sample_files(evaluation: str, model: str) -> dict[str, dict[str, str]]:
    """The samples files of a model of an evaluation by split, relative to OUT."""
    folder, greedy = f"eval/{evaluation}", "base" if model == "base_again" else model
    return {
        split: {"samples": f"{folder}/{model}/{split}.jsonl", "greedy": f"{folder}/{greedy}/{split}.greedy.jsonl"}
        for split in SPLITS
    }


def _python(module: str, *words: str) -> list[str]:
    return [sys.executable, "-m", module, *words]


def _mapping(paths: dict[str, Path]) -> str:
    """A Hydra override's value."""
    return "{" + ",".join(f"{name}:{quoted(path)}" for name, path in paths.items()) + "}"
