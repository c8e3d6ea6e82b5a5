"""Evaluation of checkpoints.

    python -m verl.dph.evaluate evaluate.models={base:DIR,...} evaluate.benchmarks=[bird,aime24] evaluate.output=DIR
    python -m verl.dph.evaluate evaluate.models={base:DIR,...} evaluate.splits={test:F.parquet} evaluate.output=DIR

Generates n samples per prompt and one greedy response from every model with verl's rollout engines, scores them over
HTTP and reports Pass@k, keep rate and styles with intervals, and tables in the paper's layout
(rl/configuration/evaluate.py, docs/howto/evaluate.md). A model is a Hugging Face folder, a checkpoint of verl's
trainer or a training run. Re-run the same command to resume.
"""

import contextlib
import copy
import logging
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from rl.checks.files import check_file, check_model
from rl.common.console_log import console_log
from rl.common.errors import UserError
from rl.common.fingerprint import short
from rl.common.run_lock import sole_run
from rl.common.signals import run_stoppable
from rl.common.text import listed
from rl.configuration.names import EVALUATE
from rl.configuration.settle import absolute
from rl.data.sample_file import read_metadata
from rl.data.training_run import CONSOLE, Run, earlier_checkpoints, newest_manifest
from rl.evaluation.analysis.questions import groups_of
from rl.evaluation.outputs import (
    GREEDY,
    SAMPLED,
    SPEC,
    check_base,
    check_report,
    evaluation_spec,
    pass_table,
    require_base_judged_alike,
    stored_base,
)
from rl.evaluation.paper.tables import write_tables
from rl.evaluation.report.write import PAGE, REPORT, write_report
from rl.evaluation.spec import BASE, BASE_AGAIN, LABELS, alike, check_description
from rl.evaluation.splits import OF_OWN_SPLITS, Split, splits_of
from verl.dph.checks.model import bound_context, context
from verl.dph.checks.run import check
from verl.dph.checks.scorer import check_scorer
from verl.dph.config.program import run_main
from verl.dph.sampling.checkpoint import MERGED, model_folder, temporary_model_folder
from verl.dph.sampling.checkpoint import check_model as check_checkpoint
from verl.dph.sampling.job import SamplingJob, draw, prepare
from verl.dph.sampling.rollout_engine import rollout_client
from verl.dph.sampling.sampler import SamplingSettings

# As a program its __name__ is __main__, and the terminal shows messages of verl.dph.
logger = logging.getLogger(EVALUATE)

# Between the seeds of the base's first draw, its second, and the other models' draws. The first decides what the base
# solved; with its random numbers a policy that has hardly changed would give the same responses, and keep all.
SEED_DISTANCE = 1_000_033

LENGTHS = ("max_prompt_length", "max_response_length")
MAPPINGS = ("models", "splits", "settings", "methods")

# {file name: path}
Files = dict[str, Path]


def jobs_of(config: DictConfig, name: str, model: str, splits: dict[str, Split]) -> list[SamplingJob]:
    """The sampling jobs of one model of `evaluate.models` (or base_again, or a checkpoint), validated.

    Args:
        name: the model's name in the report, and of its folder of samples below evaluate.output.
        model: its Hugging Face folder.

    Raises:
        UserError: see sampling.job.prepare.
    """
    config = copy.deepcopy(config)
    config.actor_rollout_ref.model.path = model
    seed = config.actor_rollout_ref.rollout.seed + {BASE: 0, BASE_AGAIN: 1}.get(name, 2) * SEED_DISTANCE
    folder = Path(config.evaluate.output).expanduser() / name
    jobs = []
    for split, drawn in splits.items():
        of_split = drawn.settings
        for length in LENGTHS:
            config.data[length] = getattr(of_split, length)
        sampled = SamplingSettings(
            n=of_split.n,
            temperature=of_split.temperature,
            top_p=of_split.top_p,
            top_k=of_split.top_k,
            max_response_length=of_split.max_response_length,
            seed=seed,
        )
        ways = {SAMPLED: sampled}
        if of_split.greedy and name != BASE_AGAIN:
            ways[GREEDY] = replace(sampled, n=1, temperature=0.0)
        for suffix, way in ways.items():
            jobs.append(prepare(config, files=drawn.files, settings=way, output=folder / f"{split}{suffix}"))
        if not all(job.complete() for job in jobs[-len(ways) :]):
            for sentence in context(config):
                logger.warning("%s of %s: %s", split, name, sentence)
    return jobs


async def draw_all(
    config: DictConfig,
    jobs: dict[str, list[SamplingJob]],
    earlier: dict[str, dict[int, Path]],
    splits: dict[str, Split],
) -> dict[str, dict[int, Files]]:
    """Generate the missing samples of all models, then those of the earlier checkpoints of runs.

    The merged weights of a checkpoint are in its folder of samples only while it is sampled.

    Returns:
        {model: {training step: files}} of the earlier checkpoints.
    """
    # The second draw of the base follows the first, on the same engine.
    for _, of_model in groupby(jobs.items(), key=lambda named: named[1][0].metadata.model):
        named = dict(of_model)
        await _draw_model(config, ", ".join(named), list(chain.from_iterable(named.values())))
    found: dict[str, dict[int, Files]] = {name: {} for name in earlier}
    for name, of_steps in earlier.items():
        for step, path in of_steps.items():
            drawn_as = f"{name}/global_step_{step}"
            folder = Path(config.evaluate.output).expanduser() / drawn_as
            trusted = config.actor_rollout_ref.model.trust_remote_code
            with temporary_model_folder(str(path), folder / MERGED, trusted) as model:
                of_step = jobs_of(config, drawn_as, model, splits)
                await _draw_model(config, drawn_as, of_step)
            found[name][step] = _files(of_step)
    return found


async def _draw_model(config: DictConfig, name: str, jobs: list[SamplingJob]) -> None:
    """Draw a model's missing samples with one engine, which starts only after the scorer has accepted all prompts."""
    missing = [job for job in jobs if not job.complete()]
    if not missing:
        return
    verdict = await check_scorer(config, (prompt.row for job in missing for prompt in job.prompts))
    base = config.evaluate.base or (config.evaluate.output if BASE in config.evaluate.models else None)
    if base is not None:
        require_base_judged_alike(Path(base).expanduser(), {job.output.name for job in missing}, verdict)
    logger.info("Sampling %s: %s", name, ", ".join(job.output.name for job in missing))
    of_engine = copy.deepcopy(config)
    # A running Ray has another working folder.
    of_engine.actor_rollout_ref.model.path = absolute(missing[0].metadata.model, is_model=True)
    bound_context(of_engine)
    async with rollout_client(of_engine) as client:
        for job in missing:
            await draw(job, lambda: contextlib.nullcontext(client))


def main(config: DictConfig) -> None:
    splits = _checked(config)
    with sole_run(Path(config.evaluate.output).expanduser(), "name another folder in evaluate.output"):
        _evaluate(config, splits)


def _evaluate(config: DictConfig, splits: dict[str, Split]) -> None:
    runs = {name: run for name, model in config.evaluate.models.items() if (run := Run.of(str(model))) is not None}
    earlier = _earlier(config, runs)
    for path in chain.from_iterable(of_steps.values() for of_steps in earlier.values()):
        check_checkpoint(str(path))
    folder = Path(config.evaluate.output).expanduser()
    with console_log(folder / CONSOLE):
        files = (folder / name / f"{split}{SAMPLED}" for name in config.evaluate.models for split in splits)
        if not all(file.exists() for file in files):
            run_stoppable(check_scorer(config, ()))  # merging and hashing the models takes long
        models = {}
        for name, model in config.evaluate.models.items():
            models[name] = model_folder(str(model), config.actor_rollout_ref.model.trust_remote_code)
            if name == BASE and config.evaluate.base_again:
                models[BASE_AGAIN] = models[BASE]
        with open_dict(config):
            config.actor_rollout_ref.model.path = next(iter(models.values()))
            # One engine serves all splits.
            for length in LENGTHS:
                config.data[length] = max(getattr(split.settings, length) for split in splits.values())
        OmegaConf.resolve(config)
        jobs = {name: jobs_of(config, name, model, splits) for name, model in models.items()}
        drawn = {name: _files(of_model) for name, of_model in jobs.items()}
        if config.evaluate.base is not None:
            wanted = {job.output.name: job.metadata for job in next(iter(jobs.values()))}
            drawn = stored_base(Path(config.evaluate.base).expanduser(), wanted) | drawn
            _check_methods(config.evaluate, drawn)
        if BASE in drawn:
            of_base = jobs[BASE][0].metadata if BASE in jobs else read_metadata(next(iter(drawn[BASE].values())))
            _warn_of_other_base(of_base.model_hash, runs)
        checkpoints = run_stoppable(draw_all(config, jobs, earlier, splits))
    earlier_drawn = {f"{name}, step {step}": found for name in earlier for step, found in checkpoints[name].items()}
    sys.stdout.write(pass_table(drawn | earlier_drawn, config.evaluate.solved_in))
    if config.evaluate.report:
        spec = evaluation_spec(config, splits, drawn, checkpoints, runs)
        spec.write(folder / SPEC)
        tables = write_tables(write_report(spec, folder), folder, config.evaluate.paper)
        sys.stdout.write(f"Wrote {folder / PAGE}, {folder / REPORT}, {tables}.\n")


def _warn_of_other_base(model_hash: str, runs: dict[str, Run]) -> None:
    """Warn of a base, evaluated or stored, that is another model than the one from which a run started."""
    for name, run in runs.items():
        manifest = newest_manifest(run.folder) if name != BASE else None
        started_from = (manifest or {"model": {}})["model"].get("model_hash", model_hash)
        if started_from != model_hash:
            words = "%s (%s) was not trained from base: model_hash %s, not %s"
            logger.warning(words, name, run.folder, short(started_from), short(model_hash))


def _files(jobs: list[SamplingJob]) -> Files:
    return {job.output.name: job.output for job in jobs}


def _earlier(config: DictConfig, runs: dict[str, Run]) -> dict[str, dict[int, Path]]:
    """{model: {training step: folder}} of evaluate.checkpoints."""
    wanted = config.evaluate.checkpoints
    if wanted is None:
        return {}
    if not runs:
        raise UserError(
            "evaluate.checkpoints is set, but no model of evaluate.models is a training run: name a run's folder, or a "
            "global_step_N in it."
        )
    return {name: earlier_checkpoints(name, run, wanted) for name, run in runs.items()}


def _checked(config: DictConfig) -> dict[str, Split]:
    """Validate all settings; return the splits."""
    evaluate = config.evaluate
    with open_dict(config):
        # Their default is null, because Hydra's command line cannot add keys to an empty mapping. It reads 2024 as a
        # number.
        for name in MAPPINGS:
            found = {} if OmegaConf.is_missing(evaluate, name) else evaluate[name]
            if not found or OmegaConf.is_dict(found):
                evaluate[name] = {str(key): of for key, of in (found or {}).items()}
    if not OmegaConf.is_missing(evaluate, "output") and not evaluate.output:
        raise UserError("evaluate.output is empty: name the folder of the samples and the report.")
    check(config, EVALUATE, without=("model",))
    for key in ("models", "splits"):
        for name in evaluate[key]:
            if "/" in name or name.startswith(".") or not name or name.endswith(GREEDY.removesuffix(SAMPLED)):
                raise UserError(
                    f"evaluate.{key} has {name!r}, and files are named after it: choose a name without / that neither "
                    "begins with a dot nor ends with .greedy."
                )
    if not evaluate.models or not (evaluate.benchmarks or evaluate.splits):
        raise UserError(
            "evaluate.models must name at least one model folder, and evaluate.benchmarks a benchmark or "
            "evaluate.splits a parquet file."
        )
    if evaluate.base is not None and BASE in evaluate.models:
        raise UserError("evaluate.base names a stored base run and evaluate.models has base too: use one of them.")
    if evaluate.base is not None:
        check_base(Path(evaluate.base).expanduser())
    if BASE_AGAIN in evaluate.models:
        raise UserError(f"{BASE_AGAIN} is drawn from base, with evaluate.base_again: remove it from evaluate.models.")
    has_base = BASE in evaluate.models or evaluate.base is not None
    _check_methods(evaluate, [BASE_AGAIN] if has_base and (evaluate.base_again or evaluate.base is not None) else [])
    splits = splits_of(config)
    words = HydraConfig.get().overrides.task if HydraConfig.initialized() else ()
    unread = {word.lstrip("+").partition("=")[0] for word in words} & {*OF_OWN_SPLITS} - {"evaluate.greedy"}
    if unread and not evaluate.splits:
        logger.warning(
            "%s has no effect: it is read for evaluate.splits, and benchmarks are sampled as in the paper "
            "(evaluate.settings changes that).",
            ", ".join(sorted(unread)),
        )
    for name, split in splits.items():
        for file in split.files:  # of a benchmark they exist
            check_file(f"evaluate.splits.{name}", Path(file))
    for name, model in evaluate.models.items():
        if Path(str(model)).expanduser().is_dir():
            check_checkpoint(str(model))
        else:
            check_model(f"evaluate.models.{name}", str(model))
    files = [Path(file) for split in splits.values() for file in split.files]
    if evaluate.groups is not None and (absent := set(evaluate.groups) - set(groups_of(files, evaluate.groups))):
        raise UserError(
            f"evaluate.groups has {sorted(absent)[0]}, which no row has in its extra_info: correct or remove it."
        )
    if evaluate.report and not has_base:
        raise UserError(
            f"evaluate.models has {listed(evaluate.models)} and no {BASE}, and evaluate.base is null, so there is "
            f"nothing to compare with: name the initial policy {BASE}, or set evaluate.report=False."
        )
    if evaluate.report:
        check_report(Path(evaluate.output).expanduser(), evaluate.models, splits)
    for name, split in splits.items():
        if evaluate.report and split.settings.n < evaluate.solved_in:
            raise UserError(
                f"{name} has {split.settings.n} samples per prompt, but the report's keep rate needs Pass@"
                f"{evaluate.solved_in}: raise n, lower evaluate.solved_in, or set evaluate.report=False."
            )
    return splits


def _check_methods(evaluate: DictConfig, drawn: Iterable[str]) -> None:
    """Check evaluate.methods before anything is sampled.

    Args:
        drawn: names that are reported in addition to evaluate.models.
    """
    known = dict.fromkeys([*([BASE] if evaluate.base is not None else []), *evaluate.models, *drawn])
    if unknown := [name for name in evaluate.methods if name not in known]:
        raise UserError(
            f"evaluate.methods has {unknown[0]}, which is not one of {', '.join(map(str, known))}: correct or "
            f"remove it ({BASE_AGAIN} is drawn with evaluate.base_again=True)."
        )
    for name, entry in OmegaConf.to_container(evaluate.methods).items():
        check_description(f"evaluate.methods.{name}", entry)
    labels = {name: (evaluate.methods.get(name) or {}).get("label") or LABELS.get(name, name) for name in known}
    if same := alike(labels):
        raise UserError(f"{listed(same)} have one label in the report: give one another in evaluate.methods.")


if __name__ == "__main__":
    run_main(main, EVALUATE)
