"""Pre-sampling: `python -m verl.dph.presample presample.output=F.jsonl data.train_files=[train.parquet] ...`.

Samples every training prompt n times from the initial policy on verl's rollout engines, scores the responses over HTTP
and appends them to F.jsonl (rl/configuration/sampling.py, docs/reference/training.md). A run that was stopped resumes.
"""

import sys
from functools import partial
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rl.checks.files import files_of
from rl.common.console_log import console_log
from rl.common.signals import Stopped, run_stoppable
from rl.configuration.methods import next_step
from rl.configuration.names import PRESAMPLE
from rl.data.sample_file import check_name
from rl.data.sample_summary import summarize
from verl.dph.checks.model import bound_context
from verl.dph.checks.run import check
from verl.dph.checks.scorer import check_scorer
from verl.dph.config.program import chosen_experiment, run_main
from verl.dph.sampling.job import SamplingJob, draw, prepare
from verl.dph.sampling.rollout_engine import rollout_client
from verl.dph.sampling.sampler import SamplingSettings


def main(config: DictConfig) -> None:
    settings = check_settings(config)
    job = prepare(
        config,
        files=files_of(config.data.train_files),
        settings=settings,
        output=Path(config.presample.output).expanduser(),
        max_in_flight=config.presample.max_in_flight,
        unjudged=True,
    )
    if not job.prompts.judged:
        sys.stderr.write("The prompts have no ground truth: their samples are not scored, and serve as an anchor.\n")
    bound_context(config)
    OmegaConf.resolve(config)
    try:
        with console_log(job.output.with_suffix(".log")):
            drawn = run_stoppable(_draw(config, job))
    except Stopped as stopped:
        sys.stderr.write("Stopped: re-run the same command to resume.\n")
        sys.exit(stopped.exit_code)
    summary = summarize(job.output)
    sys.stdout.write(f"{summary}\nnow: {drawn} samples\n")
    sys.stdout.write(f"Wrote {job.output}.\n")
    if (experiment := chosen_experiment()) and job.prompts.judged:
        sys.stdout.write(next_step("dph split", experiment))


async def _draw(config: DictConfig, job: SamplingJob) -> int:
    if job.prompts.judged and not job.complete():
        await check_scorer(config, (prompt.row for prompt in job.prompts))
    return await draw(job, partial(rollout_client, config))


def check_settings(config: DictConfig) -> SamplingSettings:
    """Reject settings that cannot work; return the sampler's."""
    # `prepare` reads the tokenizer and the prompts, and a finished job needs no scorer.
    check(config, PRESAMPLE, without=("tokenizer", "data", "scorer"))
    check_name(Path(config.presample.output).expanduser())
    seed, settings = config.actor_rollout_ref.rollout.seed, config.presample
    return SamplingSettings.of(config, n=settings.n, seed=seed, log_probs=settings.log_probs)


if __name__ == "__main__":
    run_main(main, PRESAMPLE)
