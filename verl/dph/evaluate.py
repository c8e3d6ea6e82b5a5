"""Evaluation of checkpoints.

    python -m verl.dph.evaluate evaluate.models={base:DIR,...} evaluate.splits={test:F.parquet} evaluate.output=DIR

Samples every checkpoint n times a prompt, and once greedily, on verl's rollout engines, scores over HTTP and reports
Pass@k, keep rate and styles with intervals (verl/dph/config/evaluate.yaml, docs/evaluation.md). Resumable sample by
sample.
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

from verl.dph.cli import run_main
from verl.dph.engine import check_rollout, rollout_client
from verl.dph.errors import UserError
from verl.dph.evaluation.report import write_report
from verl.dph.evaluation.spec import BASE, BASE_AGAIN, read_spec
from verl.dph.sample_summary import summarize
from verl.dph.sampler import SamplingSettings
from verl.dph.sampling_job import SamplingJob, draw, prepare

# Added to the seed of the base model's second draw, so that it is another one.
SECOND_DRAW_SEED = 1_000_033


def jobs_of(config: DictConfig, name: str) -> list[SamplingJob]:
    """What is to be drawn for one model of `evaluate.models` (or base_again), everything checked.

    Raises:
        UserError: see sampling_job.prepare.
    """
    model = BASE if name == BASE_AGAIN else name
    config = copy.deepcopy(config)
    config.actor_rollout_ref.model.path = config.evaluate.models[model]
    rollout = config.actor_rollout_ref.rollout
    sampled = SamplingSettings(
        n=config.evaluate.n,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        max_response_length=config.data.max_response_length,
        seed=rollout.seed + (SECOND_DRAW_SEED if name == BASE_AGAIN else 0),
    )
    jobs = []
    for split, file in config.evaluate.splits.items():
        files = [file] if isinstance(file, str) else list(file)
        folder = Path(config.evaluate.output).expanduser() / name
        jobs.append(prepare(config, files=files, settings=sampled, output=folder / f"{split}.jsonl"))
        if config.evaluate.greedy and name != BASE_AGAIN:
            greedy = replace(sampled, n=1, temperature=0.0)
            jobs.append(prepare(config, files=files, settings=greedy, output=folder / f"{split}.greedy.jsonl"))
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


def write_spec(config: DictConfig, names: list[str]) -> Path:
    """The report's specification beside the samples (evaluation/spec.py)."""
    folder = Path(config.evaluate.output).expanduser()

    def files(name: str, split: str) -> dict[str, str]:
        greedy = BASE if name == BASE_AGAIN else name
        found = {"samples": f"{name}/{split}.jsonl"}
        return found | ({"greedy": f"{greedy}/{split}.greedy.jsonl"} if config.evaluate.greedy else {})

    spec = {
        "title": config.evaluate.title,
        "summary": config.evaluate.summary,
        "methods": {
            name: {"splits": {split: files(name, split) for split in config.evaluate.splits}} for name in names
        },
    }
    path = folder / "spec.json"
    aside = path.with_name("spec.json.tmp")
    aside.write_text(json.dumps(spec, indent=2) + "\n")
    os.replace(aside, path)
    return path


def main(config: DictConfig) -> None:
    if not config.evaluate.models or not config.evaluate.splits:
        raise UserError(
            "evaluate.models and evaluate.splits must each name at least one: a model folder, a parquet file."
        )
    with open_dict(config):
        config.actor_rollout_ref.model.path = next(iter(config.evaluate.models.values()))
    check_rollout(config)
    OmegaConf.resolve(config)
    names = list(config.evaluate.models)
    if BASE in names and config.evaluate.base_again:
        names.insert(1 + names.index(BASE), BASE_AGAIN)
    jobs = {name: jobs_of(config, name) for name in names}
    asyncio.run(draw_all(config, jobs))
    for job in (job for of_model in jobs.values() for job in of_model):
        sys.stdout.write(f"{job.output}\n{summarize(job.output)}\n\n")
    if BASE in names and config.evaluate.report:
        spec = write_spec(config, names)
        write_report(read_spec(spec), spec.parent)
        sys.stdout.write(f"Wrote {spec.parent / 'report.json'} and {spec.parent / 'report.html'}.\n")


if __name__ == "__main__":
    run_main(main, "evaluate")
