"""Files of prompts and of samples: recognise a file's kind by its content, not its name, and make its report.

Prompts are a parquet of training or evaluation rows, or a part of the split, which has base_correct. Samples are the
sampler's records or the paper's JSON lines (id, input, output, score, acc). Damaged files are read as far as possible.
"""

import dataclasses
import itertools
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import multimode
from typing import Any

import pyarrow.parquet as pq
from tqdm import tqdm

from rl.common.errors import UserError, file_errors
from rl.common.outcomes import GOLD_FAILURES, is_correct
from rl.common.parquet_file import open_parquet, rows_in
from rl.data.inspect.report import PROMPTS, SAMPLES, STORE, FileReport, Options, text_hash
from rl.data.json_text import loads_or_none
from rl.data.rows import COLUMNS, to_row
from rl.data.sample_file import FORMAT, MOST_SAMPLES, REQUIRED_KEYS, SampleMetadata, read_metadata
from rl.data.sample_summary import pass_summary
from rl.data.split import BASE_CORRECT
from rl.data.wording import named, number_of, without_reference

_PARQUET_MAGIC = b"PAR1"
# Samples have these keys in every format, also in the paper's.
_SAMPLE_KEYS = ("id", "output", "score")
# The first lines may be damaged: a file is rejected after this many.
_TRIED_LINES = 20
_METADATA_BYTES = 1 << 20
_SILENT_S = 2
_SHOWN = ("id", "sample", "data_source", "score", "acc", "outcome", "truncated", "input", "output")
_FAULTS = {
    "incomplete": "without a required key, or with a value of another type",
    "repeated": "that repeat an earlier id and sample number",
    "other text": "with another prompt text than the first sample of the id",
    "misjudged": "with an acc that contradicts the score",
}


def kind_of(path: Path) -> str:
    """The kind of a file: PROMPTS, SAMPLES or STORE.

    Raises:
        UserError: the file cannot be read, or is not a file of the project.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder: give a file in it.")
    with file_errors(path, "read", "give an existing file"), open(path, "rb") as file:
        head = file.read(4)
    if not head:
        raise UserError(f"{path} is empty: make it again.")
    kind = {_PARQUET_MAGIC: _kind_of_parquet, b"PK\x03\x04": _kind_of_archive}.get(head, _kind_of_lines)
    return kind(path)


def _is_sample(content: Any) -> bool:
    """Whether a line's JSON is a sample of any format."""
    return isinstance(content, dict) and all(key in content for key in _SAMPLE_KEYS)


def _kind_of_parquet(path: Path) -> str:
    with open_parquet(path, (), "make it again") as parquet:
        columns = parquet.schema_arrow.names
    if "prompt" in columns and ("reward_model" in columns or "data_source" in columns):
        return PROMPTS
    raise _unknown(path, f"a parquet with the columns {', '.join(columns) or 'none'}")


def _kind_of_archive(path: Path) -> str:
    try:
        names = zipfile.ZipFile(path).namelist()
    except zipfile.BadZipFile as error:
        raise UserError(f"{path} is an archive that was cut short, perhaps a D_pef store: make it again.") from error
    if any(name.endswith("/data.pkl") for name in names):
        return STORE  # or another file of torch.save, which Store.load rejects
    raise _unknown(path, "a zip archive, but not one of torch.save")


def _kind_of_lines(path: Path) -> str:
    with open(path, "rb") as file:
        lines = [loads_or_none(line) for line in itertools.islice(file, _TRIED_LINES)]
    if any(map(_is_sample, lines)):
        return SAMPLES
    whole = loads_or_none(path.read_bytes()) if path.stat().st_size <= _METADATA_BYTES else None
    if isinstance(whole, dict) and whole.get("format") == FORMAT:
        raise UserError(f"{path} is the metadata of a samples file: name the samples (.jsonl) beside it.")
    found = next((content for content in (*lines, whole) if isinstance(content, dict | list)), None)
    if isinstance(found, dict):
        raise _unknown(path, f"JSON with the keys {', '.join(found)[:200]}")
    raise _unknown(path, "a JSON list" if found is not None else "neither parquet, JSON lines nor a torch file")


def _unknown(path: Path, found: str) -> UserError:
    return UserError(
        f"{path} is not one of the project's files ({found}): give a parquet of prompts (prompt, reward_model, id, "
        "data_source), samples (JSON lines with id, output, score) or a D_pef store (.pt); the prepare_*.py of data/ "
        "make a parquet of a downloaded benchmark."
    )


def inspect_prompts(path: Path, options: Options) -> FileReport:
    schema = pq.read_schema(path)
    report = FileReport(path, f"{PROMPTS}, a part of the split" if BASE_CORRECT in schema.names else PROMPTS, options)
    report.facts["columns"] = {item.name: str(item.type).split("<")[0] for item in schema}
    report.problems = [f"There is no column {name}." for name in COLUMNS if name not in schema.names]
    columns = [name for name in (*COLUMNS, BASE_CORRECT) if name in schema.names]
    whole = not report.problems
    rejected, first, impossible, correct, untokenized = 0, "", 0, [], []
    for number, values in enumerate(_parquet_rows(path, columns, report.problems)):
        if reason := _add_prompt(report, number, values, options):
            untokenized.append(f"row {number}: {reason}")
        if whole:
            try:
                to_row(values, f"row {number}")
            except UserError as error:
                rejected, first = rejected + 1, first or str(error)
        count = values.get(BASE_CORRECT)
        if isinstance(count, int) and 0 <= count < MOST_SAMPLES:
            correct.append(count)
        else:
            impossible += count is not None
    if correct:
        report.passes = pass_summary(correct, None)
    report.examples = [_prompt_example(values) for values in report.chosen]
    if not report.rows:
        report.problems.append("There is no row.")
    if rejected:
        report.problems.append(f"The sampler rejects {rejected} of {report.rows} rows; the first: {first}")
    if untokenized:
        report.problems.append(
            f"The tokenizer's chat template rejects {len(untokenized)} of {report.rows} prompts; the first: "
            f"{untokenized[0]}"
        )
    if impossible:
        report.problems.append(f"{number_of(impossible, 'row')} with a {BASE_CORRECT} that is not a number of samples.")
    report.problems += report.duplicates()
    return report


def _add_prompt(report: FileReport, number: int, values: dict[str, Any], options: Options) -> str:
    """Count a prompt, and return why the tokenizer's chat template rejects it, or ""."""
    report.add_row(values)
    report.counts["data_source"][str(values.get("data_source"))] += 1
    id = values.get("id")
    if isinstance(id, int | str):
        report.ids[id] += 1
    else:
        id = f"row {number}"
    messages = values.get("prompt")
    text = _prompt_text(messages)
    if text is None:
        return ""
    report.add_text(id, text_hash(text))
    report.lengths["prompt characters"][len(text)] += 1
    if options.tokenizer is None:
        return ""
    from jinja2 import TemplateError

    try:
        tokens = options.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    except (TemplateError, TypeError) as error:  # a template joins texts, and a role may be none
        return str(error)
    report.lengths["prompt tokens"][len(tokens)] += 1
    return ""


def _prompt_text(messages: Any) -> str | None:
    """The contents of the messages, one per line; None if `messages` is not a list of messages."""
    if not isinstance(messages, list) or not messages:
        return None
    contents = [message.get("content") if isinstance(message, Mapping) else None for message in messages]
    texts = [content for content in contents if isinstance(content, str)]
    return "\n".join(texts) if len(texts) == len(messages) else None


def _prompt_example(values: dict[str, Any]) -> dict[str, Any]:
    reward_model = values.get("reward_model")
    truth = reward_model.get("ground_truth") if isinstance(reward_model, Mapping) else None
    known = {name: values[name] for name in ("id", "data_source", BASE_CORRECT) if name in values}
    return known | {"prompt": _prompt_text(values.get("prompt")), "ground_truth": truth}


@dataclass(slots=True)
class _Prompt:
    """Counts of one prompt's samples."""

    text: int | None
    seen: int = 0  # a bit for each sample number
    drawn: int = 0
    correct: int = 0
    gold_failed: int = 0


def inspect_samples(path: Path, options: Options) -> FileReport:
    report = FileReport(path, SAMPLES, options)
    tally = _Tally(report, options)
    for sample in _json_samples(path, report.problems):
        tally.add(sample)
    prompts = tally.prompts
    metadata = None
    if tally.ours:
        try:
            metadata = read_metadata(path)
        except UserError as error:
            report.problems.append(str(error))
    else:
        report.kind += ", in the paper's format"
    n = metadata.n if metadata else _usual_number(prompts)
    report.facts = {"keys": tally.keys, "prompts": len(prompts)} | _facts(metadata)
    if tally.truncated:
        report.shares["truncated"] = tally.truncated[True] / tally.truncated.total()
    if correct := [prompt.correct for prompt in prompts.values() if prompt.drawn == n]:
        report.passes = pass_summary(correct, n)
    report.examples = [{name: row[name] for name in _SHOWN if name in row} for row in report.chosen]
    for fault, what in _FAULTS.items():
        if tally.faults[fault]:
            report.problems.append(f"{number_of(tally.faults[fault], 'sample')} {what}.")
    report.problems += report.duplicates("prompt") + ([] if report.rows else ["There is no sample."])
    report.problems += _incomplete_prompts(prompts, n or 0)
    failed = [id for id, prompt in prompts.items() if 0 < prompt.drawn == prompt.gold_failed]
    if failed:
        report.problems.append(f"No reference: {without_reference(failed)}")
    if metadata and len(prompts) != metadata.rows:
        report.problems.append(
            f"There are samples of {len(prompts)} prompts, but the metadata announce {metadata.rows}."
        )
    return report


class _Tally:
    """Counts by prompt; all other counts go into the report.

    Attributes:
        ours: whether the samples are in the sampler's format; otherwise they are in the paper's.
        faults: the number of samples for each key of _FAULTS.
    """

    def __init__(self, report: FileReport, options: Options):
        self.ours: bool = False
        self.keys: list[str] = []
        self.prompts: dict[int | str, _Prompt] = {}
        self.faults: Counter[str] = Counter()
        self.truncated: Counter[bool] = Counter()
        self._report, self._tokenizer = report, options.tokenizer

    def add(self, sample: dict[str, Any]) -> None:
        if not self.keys:
            self.keys, self.ours = list(sample), sample.keys() >= REQUIRED_KEYS
        if not self._is_whole(sample):
            self.faults["incomplete"] += 1
            return
        prompt = self._prompt(sample)
        number = sample["sample"] if self.ours else prompt.drawn
        if prompt.seen >> number & 1:
            self.faults["repeated"] += 1
            return
        acc = sample.get("acc")
        correct = is_correct(sample["score"] if acc is None else acc)
        prompt.seen |= 1 << number
        prompt.drawn += 1
        prompt.correct += correct
        prompt.gold_failed += sample.get("outcome") in GOLD_FAILURES
        self.faults["misjudged"] += self.ours and correct != is_correct(sample["score"])
        self._count(sample)

    def _is_whole(self, sample: dict[str, Any]) -> bool:
        right_types = isinstance(sample["id"], int | str) and isinstance(sample["output"], str)
        right_types &= isinstance(sample["score"], int | float) and abs(sample["score"]) <= sys.float_info.max
        right_types &= isinstance(sample.get("acc"), int | float | None)
        if self.ours:
            right_types &= sample.keys() >= REQUIRED_KEYS and type(sample["sample"]) is int
            return right_types and 0 <= sample["sample"] < MOST_SAMPLES
        return right_types

    def _prompt(self, sample: dict[str, Any]) -> _Prompt:
        report, id, text = self._report, sample["id"], sample.get("input")
        hashed = text_hash(text) if isinstance(text, str) else None
        if id not in self.prompts:
            self.prompts[id] = _Prompt(hashed)
            report.ids[id] += 1
            if isinstance(text, str) and hashed is not None:
                report.add_text(id, hashed)
                report.lengths["input characters"][len(text)] += 1
                if self._tokenizer is not None:
                    tokens = self._tokenizer(text, add_special_tokens=False)["input_ids"]
                    report.lengths["prompt tokens"][len(tokens)] += 1
        prompt = self.prompts[id]
        self.faults["other text"] += hashed != prompt.text
        return prompt

    def _count(self, sample: dict[str, Any]) -> None:
        report = self._report
        report.add_row(sample)
        for name in ("data_source", "outcome"):
            if sample.get(name) is not None:
                report.counts[name][str(sample[name])] += 1
        if isinstance(sample.get("truncated"), bool):
            self.truncated[sample["truncated"]] += 1
        report.lengths["output characters"][len(sample["output"])] += 1
        if isinstance(sample.get("response_ids"), list):
            report.lengths["response tokens"][len(sample["response_ids"])] += 1


def _json_samples(path: Path, problems: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the lines that are samples; count the others in `problems`."""
    bad, first_bad, torn = 0, 0, False
    with open(path, "rb") as file, _progress(path.stat().st_size, path, "B") as bar:
        for number, line in enumerate(file, start=1):
            bar.update(len(line))
            content = loads_or_none(line)
            ended = line.endswith(b"\n")
            # The paper's files may end without a line break. In the sampler's files such a line is torn.
            if _is_sample(content) and (ended or not content.keys() >= REQUIRED_KEYS):
                yield content
            elif not ended:
                torn = True
            elif line.strip():
                bad, first_bad = bad + 1, first_bad or number
    if bad:
        problems.append(f"{number_of(bad, 'line')} cannot be read as a sample (the first is line {first_bad}).")
    if torn:
        problems.append("The last line is torn, as a stopped sampler leaves it: re-run it to resume.")


def _facts(metadata: SampleMetadata | None) -> dict[str, Any]:
    if metadata is None:
        return {}
    facts = dataclasses.asdict(metadata)
    facts["prompts announced"], facts["overlong"] = facts.pop("rows"), len(facts.pop("overlong_ids"))
    return facts


def _usual_number(prompts: dict[int | str, _Prompt]) -> int | None:
    """The number of samples that most prompts have; if two numbers are equally common, the larger."""
    return max(multimode(prompt.drawn for prompt in prompts.values() if prompt.drawn), default=None)


def _incomplete_prompts(prompts: dict[int | str, _Prompt], n: int) -> list[str]:
    odd = [id for id, prompt in prompts.items() if prompt.seen != (1 << n) - 1]
    if not odd:
        return []
    first = f"the first, id {odd[0]}, has {prompts[odd[0]].drawn}"
    return [f"{len(odd)} of {len(prompts)} prompts have other samples than 0 to {n - 1} ({named(odd)}; {first})."]


def _parquet_rows(path: Path, columns: Sequence[str], problems: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows up to the first damaged one, and report that one in `problems`."""
    number = 0
    with open_parquet(path, (), "make it again") as parquet, _progress(parquet.metadata.num_rows, path, "row") as bar:
        try:
            for row in rows_in(parquet, columns):
                number += 1
                yield row
                bar.update()
        except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
            total = parquet.metadata.num_rows
            problems.append(f"Rows {number} to {total - 1} cannot be read ({str(error).splitlines()[0]}).")


def _progress(total: int, path: Path, unit: str) -> tqdm:
    """A progress bar, shown only on a terminal and for long reads."""
    scale = unit == "B"
    return tqdm(total=total, desc=path.name, unit=unit, unit_scale=scale, disable=None, delay=_SILENT_S, leave=False)
