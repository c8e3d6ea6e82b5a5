"""A run's validations as samples files, from the dumps that verl writes (trainer.validation_data_dir), one per step.

Step 0 (trainer.val_before_train) has the samples of the initial policy, the base of the comparison.
"""

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rl.common.errors import UserError
from rl.common.outcomes import is_correct
from rl.data.sample_file import SampleMetadata, SampleRecord, SampleWriter
from rl.data.training_run import checkpoint_folder, newest_manifest

FOLDER = "validation"  # of the dumps, in the run's folder, unless the settings name an existing one

# {data source: {id of a prompt: its samples}}
Dump = dict[str, dict[int, list[SampleRecord]]]


@dataclass(frozen=True)
class Validations:
    """The dumps of a run.

    Attributes:
        steps: {training step: file}, ascending.
        metadata: of the samples of step 0, except the number of rows.
    """

    folder: Path
    steps: dict[int, Path]
    metadata: SampleMetadata

    @classmethod
    def of(cls, run: Path) -> "Validations | None":
        """None for a run without dumps, or without a checkpoint, whose manifest has the sampling settings."""
        manifest = newest_manifest(run)
        if manifest is None:
            return None
        settings = manifest["settings"]
        folder = Path(settings["trainer"].get("validation_data_dir") or run / FOLDER)
        folder = folder if folder.is_dir() else run / FOLDER  # the run was moved
        steps = {int(path.stem): path for path in folder.glob("*.jsonl") if path.stem.isdecimal()}
        if not steps:
            return None
        rollout = settings["actor_rollout_ref"]["rollout"]
        sampling = rollout["val_kwargs"]
        metadata = SampleMetadata(
            model=manifest["model"]["path"],
            model_hash=manifest["model"]["model_hash"],
            tokenizer_hash=manifest["model"]["tokenizer_hash"],
            temperature=float(sampling["temperature"]) if sampling["do_sample"] else 0.0,
            top_p=float(sampling["top_p"]),
            top_k=int(sampling["top_k"]),
            n=int(sampling["n"]),
            seed=int(rollout.get("seed") or 0),
            max_response_length=int(settings["data"]["max_response_length"]),
            data_files=manifest["data"]["val_files"],
            rows=0,
        )
        return cls(run, dict(sorted(steps.items())), metadata)

    def metadata_of(self, step: int, rows: int) -> SampleMetadata:
        metadata = dataclasses.replace(self.metadata, rows=rows)
        if step == 0:
            return metadata
        model = str(checkpoint_folder(self.folder, step))
        return dataclasses.replace(metadata, model=model, model_hash=model)


def read_dump(path: Path, metadata: SampleMetadata) -> Dump:
    """
    Raises:
        UserError: a line is not one of a dump, or an earlier version wrote the dump.
    """
    dump: Dump = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            source, prompt = row["data_source"], row["id"]
            of_prompt = dump.setdefault(source, {}).setdefault(prompt, [])
            of_prompt.append(_record(row, len(of_prompt), metadata))
        except KeyError as error:
            raise UserError(
                f"{path} line {number} has no {error}, which earlier versions did not write: evaluate the run instead "
                "(dph evaluate)."
            ) from None
        except (ValueError, TypeError):
            raise UserError(f"{path} line {number} is not a line of a validation: delete the file.") from None
    return dump


def write_samples(path: Path, prompts: dict[int, list[SampleRecord]], ids: Iterable[int], metadata) -> None:
    """Write a samples file of these prompts; an existing file is replaced."""
    path.unlink(missing_ok=True)
    with SampleWriter(path, metadata) as writer:
        for id in ids:
            for record in prompts[id]:
                writer.append(record)


def _record(row: dict, sample: int, metadata: SampleMetadata) -> SampleRecord:
    accuracy = row.get("acc")
    correct = is_correct(float(row["score"] if accuracy is None else accuracy))
    return SampleRecord(
        id=row["id"],
        sample=sample,
        input=row["input"],
        output=row["output"],
        response_ids=row["response_ids"],
        score=float(row["score"]),
        acc=int(correct),
        pred=row.get("pred"),
        outcome=row.get("outcome") or ("match" if correct else "mismatch"),
        data_source=row["data_source"],
        truncated=len(row["response_ids"]) >= metadata.max_response_length,
    )
