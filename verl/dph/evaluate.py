"""Evaluation of checkpoints.

    python -m verl.dph.evaluate evaluate.models={base:DIR,...} evaluate.benchmarks=[bird,aime24] evaluate.output=DIR
    python -m verl.dph.evaluate evaluate.models={base:DIR,...} evaluate.splits={test:F.parquet} evaluate.output=DIR

Samples every checkpoint n times a prompt, and once greedily, on verl's rollout engines, scores over HTTP and reports
Pass@k, keep rate and styles with intervals, and tables as the paper has them (verl/dph/config/evaluate.yaml,
docs/evaluation.md). A model is a Hugging Face folder, a checkpoint of verl's trainer or a training run. Resumable
sample by sample.
"""

import asyncio
import contextlib
import copy
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

from verl.dph import aside
from verl.dph.cli import run_main
from verl.dph.engine import check_rollout, rollout_client
from verl.dph.errors import UserError
from verl.dph.evaluation.benchmarks import Split, splits_of
from verl.dph.evaluation.checkpoint import model_folder
from verl.dph.evaluation.paper import paper_setting
from verl.dph.evaluation.paper_tables import write_tables
from verl.dph.evaluation.report import write_report
from verl.dph.evaluation.results import store_results
from verl.dph.evaluation.spec import BASE, BASE_AGAIN, read_spec
from verl.dph.evaluation.stored_base import stored_base
from verl.dph.evaluation.styles import BY_PREFIX, BY_STRUCTURE, KNOWN_STYLES
from verl.dph.prompts import read_rows
from verl.dph.reward.questions import answer_kind
from verl.dph.sample_summary import summarize
from verl.dph.sampler import SamplingSettings
from verl.dph.sampling_job import SamplingJob, draw, prepare

# Added to the seed of the base model's second draw, so that it is another one.
SECOND_DRAW_SEED = 1_000_033
NO_STYLES = "none"


def samples_file(split: str) -> str:
    return f"{split}.jsonl"


def greedy_file(split: str) -> str:
    return f"{split}.greedy.jsonl"


def jobs_of(config: DictConfig, name: str, model: str, splits: dict[str, Split]) -> list[SamplingJob]:
    """What is to be drawn for one model of `evaluate.models` (or base_again), everything checked.

    Args:
        name: in the report.
        model: its Hugging Face folder.

    Raises:
        UserError: see sampling_job.prepare.
    """
    config = copy.deepcopy(config)
    config.actor_rollout_ref.model.path = model
    seed = config.actor_rollout_ref.rollout.seed + (SECOND_DRAW_SEED if name == BASE_AGAIN else 0)
    folder = Path(config.evaluate.output).expanduser() / name
    jobs = []
    for split, drawn in splits.items():
        of_split = drawn.settings
        config.data.max_prompt_length = of_split.max_prompt_length
        sampled = SamplingSettings(
            n=of_split.n,
            temperature=of_split.temperature,
            top_p=of_split.top_p,
            top_k=of_split.top_k,
            max_response_length=of_split.max_response_length,
            seed=seed,
        )
        jobs.append(prepare(config, files=drawn.files, settings=sampled, output=folder / samples_file(split)))
        if of_split.greedy and name != BASE_AGAIN:
            greedy = replace(sampled, n=1, temperature=0.0)
            jobs.append(prepare(config, files=drawn.files, settings=greedy, output=folder / greedy_file(split)))
    return jobs


async def draw_all(config: DictConfig, jobs: dict[str, list[SamplingJob]]) -> None:
    """Draw what is missing, model after model; an engine is started once a model, and only when it is needed."""
    for name, of_model in jobs.items():
        missing = [job for job in of_model if not job.complete()]
        if not missing:
            continue
        sys.stderr.write(f"Sampling {name}: {', '.join(job.output.name for job in missing)}\n")
        of_engine = copy.deepcopy(config)
        of_engine.actor_rollout_ref.model.path = missing[0].metadata.model
        async with rollout_client(of_engine) as client:
            for job in missing:
                await draw(job, lambda: contextlib.nullcontext(client))  # noqa: B023  awaited in the iteration


def write_spec(config: DictConfig, splits: dict[str, Split], files: dict[str, dict[str, Path]]) -> Path:
    """The report's specification beside the samples (evaluation/spec.py).

    Args:
        files: {method: {file name: path}}.
    """
    folder = Path(config.evaluate.output).expanduser()

    def of_split(name: str, split: str) -> dict[str, str]:
        greedy = files[BASE if name == BASE_AGAIN else name].get(greedy_file(split))
        found = {"samples": os.path.relpath(files[name][samples_file(split)], folder)}
        return found | ({"greedy": os.path.relpath(greedy, folder)} if greedy else {})

    styles_by = config.evaluate.styles_by
    spec = {
        "title": config.evaluate.title,
        "summary": config.evaluate.summary,
        "methods": {name: {"splits": {split: of_split(name, split) for split in splits}} for name in files},
        "styles": [] if styles_by == NO_STYLES else list(KNOWN_STYLES),
        "styles_by": BY_PREFIX if styles_by == NO_STYLES else styles_by,
        "solved_in": config.evaluate.solved_in,
    }
    path = folder / "spec.json"
    aside.write_text(path, json.dumps(spec, indent=2) + "\n")
    return path


def main(config: DictConfig) -> None:
    splits = _checked(config)
    models = {
        name: model_folder(str(model), config.actor_rollout_ref.model.trust_remote_code)
        for name, model in config.evaluate.models.items()
    }
    with open_dict(config):
        config.actor_rollout_ref.model.path = next(iter(models.values()))
        # One engine answers the prompts of all splits.
        for name in ("max_prompt_length", "max_response_length"):
            config.data[name] = max(getattr(split.settings, name) for split in splits.values())
    check_rollout(config)
    OmegaConf.resolve(config)
    names = list(models)
    if BASE in names and config.evaluate.base_again:
        names.insert(1 + names.index(BASE), BASE_AGAIN)
    jobs = {name: jobs_of(config, name, models[BASE if name == BASE_AGAIN else name], splits) for name in names}
    files = {name: {job.output.name: job.output for job in of_model} for name, of_model in jobs.items()}
    if config.evaluate.base is not None:
        wanted = {job.output.name: job.metadata for job in jobs[names[0]]}
        files = stored_base(Path(config.evaluate.base).expanduser(), wanted) | files
    asyncio.run(draw_all(config, jobs))
    if config.evaluate.databases is not None:
        _store_results(Path(config.evaluate.databases).expanduser(), splits, files)
    for job in (job for of_model in jobs.values() for job in of_model):
        sys.stdout.write(f"{job.output}\n{summarize(job.output)}\n\n")
    if BASE in files and config.evaluate.report:
        spec = write_spec(config, splits, files)
        report = write_report(read_spec(spec), spec.parent)
        tables = write_tables([report], spec.parent, config.evaluate.paper)
        written = [spec.parent / "report.json", spec.parent / "report.html", *tables]
        sys.stdout.write(f"Wrote {', '.join(map(str, written))}.\n")


def _store_results(databases: Path, splits: dict[str, Split], files: dict[str, dict[str, Path]]) -> None:
    """What the sampled SQL of every method returns, beside its samples."""
    for split, drawn in splits.items():
        rows = read_rows(drawn.files)
        if all(answer_kind(row.data_source) == "sql" for row in rows):
            for of_method in files.values():
                store_results(of_method[samples_file(split)], {row.id: row.question for row in rows}, databases)


def _checked(config: DictConfig) -> dict[str, Split]:
    """The splits; every setting that can be wrong is looked at before anything long begins."""
    evaluate = config.evaluate
    with open_dict(config):
        # null in the file: a key could not be added to an empty mapping on the command line.
        evaluate.splits, evaluate.settings = evaluate.splits or {}, evaluate.settings or {}
    for name, value in (("models", evaluate.models), ("splits", evaluate.splits), ("settings", evaluate.settings)):
        if not isinstance(value, DictConfig):
            raise UserError(f"evaluate.{name}={value} is no mapping: write evaluate.{name}={{NAME:...}}.")
    if not evaluate.models or not (evaluate.benchmarks or evaluate.splits):
        raise UserError(
            "evaluate.models must name at least one model folder, and evaluate.benchmarks a benchmark or "
            "evaluate.splits a parquet file."
        )
    if evaluate.base is not None and BASE in evaluate.models:
        raise UserError("evaluate.base names a stored base run and evaluate.models has base too: give one of them.")
    if BASE_AGAIN in evaluate.models:
        raise UserError(f"{BASE_AGAIN} is drawn from base, with evaluate.base_again: take it out of evaluate.models.")
    if evaluate.styles_by not in (BY_PREFIX, BY_STRUCTURE, NO_STYLES):
        raise UserError(
            f"evaluate.styles_by={evaluate.styles_by} is unknown: use {BY_PREFIX}, {BY_STRUCTURE} or {NO_STYLES}."
        )
    paper_setting(evaluate.paper)
    splits = splits_of(config)
    reported = evaluate.report and (BASE in evaluate.models or evaluate.base is not None)
    for name, split in splits.items():
        if reported and split.settings.n < evaluate.solved_in:
            raise UserError(
                f"{name} has {split.settings.n} samples a prompt, but the report's keep rate needs Pass@"
                f"{evaluate.solved_in}: raise n, lower evaluate.solved_in, or set evaluate.report=False."
            )
    return splits


if __name__ == "__main__":
    run_main(main, "evaluate")
