"""The refinement: near-perfect prompts are sampled once more, and those whose sample fails are not rehearsed.

The store writes them into a file beside the near-perfect prompts, which also says which file of prompts to explore they
join. The files of the split stay as they are.
"""

from collections.abc import Set
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import DictConfig

from rl.checks.files import files_of
from rl.common import atomic_write
from rl.data.rows import ids_of
from rl.data.sample_file import holds_samples_of, refinement_samples
from rl.data.split import failed_refinement
from verl.dph.pef.store import Store
from verl.dph.sampling.job import SamplingJob, prepare
from verl.dph.sampling.sampler import SamplingSettings

# Added to data.sft_seed, so that the refinement does not repeat a sample of the pre-sampling.
SEED_DISTANCE = 1_000_003
# The key of a parquet's metadata: the name of the file that its prompts join, "" if they are left out.
_JOINS = b"dph_joins"


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
    """Whether every prompt of `correct` either has a row in a store of refinement samples, or failed."""
    rows = {row.id for row in store.rows}
    return len(rows) == len(store.rows) and rows | failed_ids(correct) == ids_of([correct])


def check(config: DictConfig) -> None:
    """Reject, before Ray starts, prompts that are too long and samples of another run."""
    job = job_of(config)
    holds_samples_of(job.output, job.metadata)


def write_failed(data: DictConfig, *, solved: Set[int | str]) -> int:
    """Write the prompts of data.sft_files that are not `solved`, and the name of the file that they join.

    Returns:
        How many there are.
    """
    [correct] = files_of(data.sft_files)
    table = pq.read_table(correct)
    failed = table.filter(pa.array([id not in solved for id in table["id"].to_pylist()], pa.bool_()))
    joins = files_of(data.sft_wrong_files)[0].name
    with atomic_write.replacing(failed_refinement(correct)) as path:
        pq.write_table(failed.replace_schema_metadata((table.schema.metadata or {}) | {_JOINS: joins}), path)
    return failed.num_rows


def failed_ids(correct: Path) -> set[int | str]:
    """The ids of the prompts of `correct` that failed their refinement."""
    path = failed_refinement(correct)
    return ids_of([path]) if path.is_file() else set()


def explored_files(data: DictConfig) -> list[str]:
    """data.train_files, each followed by the prompts that join it because they failed their refinement.

    They join nothing that has them already, such as the file of all prompts.
    """
    files = files_of(data.train_files)
    for correct in files_of(data.sft_files):
        failed, ids = failed_refinement(correct), failed_ids(correct)
        if not ids or ids & ids_of(files):
            continue
        joins = (pq.read_schema(failed).metadata or {}).get(_JOINS, b"").decode()
        files = [path for file in files for path in ([file, failed] if file.name == joins else [file])]
    return [str(file) for file in files]
