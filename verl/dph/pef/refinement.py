"""The refinement: near-perfect prompts are sampled once more, and those whose sample fails leave train_correct."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import DictConfig

from rl.checks.files import files_of, moves_failures
from rl.common import atomic_write
from rl.common.errors import UserError
from rl.data.rows import ids_of
from rl.data.sample_file import holds_samples_of, refinement_samples
from verl.dph.pef.store import Store
from verl.dph.sampling.job import SamplingJob, prepare
from verl.dph.sampling.sampler import SamplingSettings

# Added to data.sft_seed, so that the refinement does not repeat a sample of the pre-sampling.
SEED_DISTANCE = 1_000_003


def job_of(config: DictConfig) -> SamplingJob:
    """The samples that the refinement draws, in a file beside data.sft_pt.

    Raises:
        UserError: see sampling.job.prepare.
    """
    return prepare(
        config,
        files=files_of(config.data.sft_files),
        settings=SamplingSettings.of(config, n=1, seed=config.data.sft_seed + SEED_DISTANCE),
        output=refinement_samples(Path(config.data.sft_pt).expanduser()),
    )


def is_complete(store: Store, correct: Path) -> bool:
    """Whether a store of refinement samples has a row for exactly the prompts of `correct`."""
    return len(store.rows) == pq.read_metadata(correct).num_rows and {row.id for row in store.rows} == ids_of([correct])


def check(config: DictConfig) -> None:
    """Reject, before Ray starts, prompts that are too long, samples of another run, and prompts that cannot be moved.

    Raises:
        UserError: saying what is wrong.
    """
    job = job_of(config)
    holds_samples_of(job.output, job.metadata)
    wrong = file_of_failures(config.data)
    if wrong is None:
        return
    ids_of([wrong])  # a file that can be read, with ids
    [correct] = files_of(config.data.sft_files)
    try:
        pq.read_table(correct).cast(pq.read_schema(wrong))  # as move_rows does
    except (ValueError, NotImplementedError) as error:  # Arrow's, among others
        reason = str(error).splitlines()[0]
        raise UserError(
            f"Prompts of {correct} cannot move to data.sft_wrong_files={wrong}, whose columns differ ({reason}): give "
            "both files of one split (TRAIN_CORRECT and TRAIN_WRONG in the scripts)."
        ) from error


def file_of_failures(data: DictConfig) -> Path | None:
    """Where prompts go whose sample fails; None: nowhere."""
    return files_of(data.sft_wrong_files)[0] if moves_failures(data) else None


def move_rows(correct: Path, wrong: Path | None, *, stay: set[int | str]) -> int:
    """Keep the rows of `stay` in `correct`, and append the others to `wrong` if it lacks them; each file atomically.

    Args:
        wrong: None to drop the others.

    Returns:
        How many rows left `correct`.
    """
    table = pq.read_table(correct)
    ids = table["id"].to_pylist()
    if wrong is not None:
        others = pq.read_table(wrong)
        there = set(others["id"].to_pylist())
        moved = table.filter(pa.array([i not in stay and i not in there for i in ids], pa.bool_()))
        _replace(wrong, pa.concat_tables([others, moved.cast(others.schema)]))
    _replace(correct, table.filter(pa.array([i in stay for i in ids], pa.bool_())))
    return sum(i not in stay for i in ids)


def _replace(path: Path, table: pa.Table) -> None:
    with atomic_write.replacing(path) as temporary:
        pq.write_table(table, temporary)
