"""The rows of a prepared file: their ids, their columns, and how they are written.

A row's id is ID_BLOCK times the number of its data set's split (id_blocks in rl/data/benchmarks.py) plus the record's
number. So it is the same in every run over the same input, even if records are left out, and unique among all data sets
and splits.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rl.common import atomic_write
from rl.common.errors import UserError, file_errors
from rl.common.fingerprint import file_sha256
from rl.data.benchmarks import DATASETS
from rl.data.metadata_file import check_metadata, metadata_path
from rl.data.prepare.published import Input
from rl.data.questions import scorer_question

ID_BLOCK = 10_000_000
FORMAT = "dph-prompts/1"
_ROW_GROUP = 512
_MESSAGES = pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))


def _row_schema(ground_truth: pa.DataType, extra_info: dict[str, pa.DataType]) -> pa.Schema:
    shared = {"index": pa.int64(), "split": pa.string(), "source": pa.string()}
    return pa.schema(
        {
            "data_source": pa.string(),
            "prompt": _MESSAGES,
            "reward_model": pa.struct({"style": pa.string(), "ground_truth": ground_truth}),
            "id": pa.int64(),
            "extra_info": pa.struct(shared | extra_info),
        }
    )


# verl concatenates the files of a run, so all SQL files have one schema, and all math files another.
SQL_ROWS = _row_schema(
    pa.struct({"db_id": pa.string(), "gold_sql": pa.string(), "cmp_method": pa.string()}),
    {"question_id": pa.int64(), "difficulty": pa.string(), "tables_without_examples": pa.int32()},
)
MATH_ROWS = _row_schema(pa.string(), {"source_id": pa.string(), "subject": pa.string(), "level": pa.string()})


class BadRecord(Exception):
    """A record that makes no row; the text is the reason in OUTPUT.bad.jsonl."""


def row_id(dataset: str, split: str, number: int) -> int:
    """The id of a dataset's record `number`, from 0.

    Raises:
        BadRecord: the number does not fit into a block.
    """
    if not 0 <= number < ID_BLOCK:
        raise BadRecord(f"its number {number} is not between 0 and {ID_BLOCK - 1}")
    return DATASETS[dataset].id_blocks[split] * ID_BLOCK + number


class RowWriter:
    """Collects rows, and at the end of its block writes a parquet of them; OUTPUT.meta.json with the checksums of the
    output and its inputs and the commits of downloaded inputs; and, if records are left out, OUTPUT.bad.jsonl with a
    line for each. After an exception nothing is written. Rows get the checks that the sampler and the trainer make.

        with RowWriter(output, SQL_ROWS, inputs) as writer:
            writer.add(row) / writer.reject(...)

    Args:
        inputs: the files that the rows are made from; the output must not be among them.
    """

    def __init__(self, output: Path, schema: pa.Schema, inputs: Sequence[Input]):
        if output.suffix != ".parquet":
            raise UserError(f"The output {output} is not a .parquet: give a name that ends with .parquet.")
        if any(output.exists() and source.path.exists() and output.samefile(source.path) for source in inputs):
            raise UserError(f"The output {output} is the input: give another --output.")
        check_metadata(output, FORMAT)
        self.output, self.bad_list = output, output.with_suffix(".bad.jsonl")
        self.reasons: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._schema, self._inputs = schema, inputs
        self._rows: dict[int, dict[str, Any]] = {}  # by id
        self._bad: list[dict[str, Any]] = []

    @property
    def rows(self) -> int:
        return len(self._rows)

    @property
    def rejected(self) -> int:
        return len(self._bad)

    def add(self, row: dict[str, Any]) -> None:
        """Add a row.

        Raises:
            BadRecord: its id is taken, it has no UTF-8, or the scorer cannot read its ground truth.
        """
        if row["id"] in self._rows:
            raise BadRecord("an earlier record has its id")
        try:
            json.dumps(row, ensure_ascii=False).encode()
            scorer_question(row["data_source"], row["reward_model"]["ground_truth"])
        except UnicodeEncodeError as error:
            raise BadRecord("it has half of a surrogate pair, which no file can hold") from error
        except UserError as error:
            raise BadRecord(str(error)) from error
        self._rows[row["id"]] = row

    def reject(self, source: Path, number: int, reason: str, *, kind: str | None = None, about: Any = None) -> None:
        """List a record that makes no row.

        Args:
            number: the record's position in its file, from 0.
            kind: the heading under which the summary counts it; None: the reason itself.
            about: details that help to find the record; they are shortened.
        """
        self.reasons[kind or reason] += 1
        self._examples.setdefault(kind or reason, f" (such as {reason})" if kind else "")
        found = {"file": str(source), "record": number, "reason": reason, "about": about and str(about)[:200]}
        self._bad.append(found)

    def summary(self) -> str:
        """Lines about the written rows, the omitted records and the reasons."""
        lines = [f"Wrote {self.rows} rows to {self.output}."]
        if self.rejected:
            left_out = "1 record is" if self.rejected == 1 else f"{self.rejected} records are"
            lines.append(f"{left_out} left out, listed in {self.bad_list}:")
            # Sorted by count, then by name, so that the same run prints the same lines.
            for reason, count in sorted(self.reasons.items(), key=lambda item: (-item[1], item[0])):
                lines.append(f"{count:>8}  {reason}{self._examples[reason]}")
        return "\n".join(lines) + "\n"

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None:
            with file_errors(self.output, "written", "make room, or give another --output"):
                self._write()

    def _write(self) -> None:
        self.output.parent.mkdir(parents=True, exist_ok=True)
        if self._bad:
            atomic_write.write_text(self.bad_list, "".join(f"{json.dumps(found)}\n" for found in self._bad))
        else:
            self.bad_list.unlink(missing_ok=True)  # of an earlier run
        if not self._rows:
            reasons = "".join(
                f" The reason for {count}: {reason}{self._examples[reason]}; see {self.bad_list}."
                for reason, count in self.reasons.most_common(1)
            )
            raise UserError(
                f"None of the {self.rejected} records makes a row, so {self.output} is not written.{reasons}"
            )
        with atomic_write.replacing(self.output) as part:
            rows = pa.Table.from_pylist([*self._rows.values()], self._schema)
            pq.write_table(rows, part, row_group_size=_ROW_GROUP, compression="zstd")
            atomic_write.write_text(metadata_path(self.output), json.dumps(self._manifest(part), indent=2) + "\n")

    def _manifest(self, written: Path) -> dict[str, Any]:
        inputs = []
        for source in self._inputs:
            downloaded = {"repository": source.repository, "commit": source.commit} if source.commit else {}
            inputs.append({"file": str(source.path), "sha256": file_sha256(source.path), **downloaded})
        counts = {"rows": self.rows, "rejected": self.rejected}
        return {"format": FORMAT, **counts, "sha256": file_sha256(written), "inputs": inputs}
