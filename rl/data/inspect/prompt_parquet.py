"""A parquet of prompts: training or evaluation rows, or a part of the split, which knows base_correct."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rl.common.errors import UserError
from rl.data.inspect.file_kinds import PROMPTS, parquet_rows
from rl.data.inspect.report import FileReport, Options, pass_summary, text_hash
from rl.data.rows import COLUMNS, to_row
from rl.data.sample_file import MOST_SAMPLES
from rl.data.split import BASE_CORRECT
from rl.data.wording import number_of


def inspect_prompts(path: Path, options: Options) -> FileReport:
    schema = pq.read_schema(path)
    report = FileReport(path, f"{PROMPTS}, a part of the split" if BASE_CORRECT in schema.names else PROMPTS, options)
    report.facts["columns"] = {item.name: str(item.type).split("<")[0] for item in schema}
    report.problems = [f"There is no column {name}." for name in COLUMNS if name not in schema.names]
    columns = [name for name in (*COLUMNS, BASE_CORRECT) if name in schema.names]
    whole = not report.problems
    rejected, first, impossible, correct = 0, "", 0, []
    for number, values in enumerate(parquet_rows(path, columns, report.problems)):
        _add(report, number, values, options)
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
    report.passes = pass_summary(correct, None)
    report.examples = [_example(values) for values in report.chosen]
    if not report.rows:
        report.problems.append("There is no row.")
    if rejected:
        report.problems.append(f"The sampler rejects {rejected} of {report.rows} rows; the first: {first}")
    if impossible:
        report.problems.append(f"{number_of(impossible, 'row')} with a {BASE_CORRECT} that is no number of samples.")
    report.problems += report.duplicates()
    return report


def _add(report: FileReport, number: int, values: dict[str, Any], options: Options) -> None:
    report.add_row(values)
    report.counts["data_source"][str(values.get("data_source"))] += 1
    id = values.get("id")
    if isinstance(id, int | str):
        report.ids[id] += 1
    else:
        id = f"row {number}"
    messages = values.get("prompt")
    text = prompt_text(messages)
    if text is None:
        return
    report.add_text(id, text_hash(text))
    report.lengths["prompt characters"][len(text)] += 1
    if options.tokenizer is not None:
        tokens = options.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        report.lengths["prompt tokens"][len(tokens)] += 1


def prompt_text(messages: Any) -> str | None:
    """The contents of the messages, a line break between two; None for what is not a list of messages."""
    if not isinstance(messages, list) or not messages:
        return None
    contents = [message.get("content") if isinstance(message, Mapping) else None for message in messages]
    texts = [content for content in contents if isinstance(content, str)]
    return "\n".join(texts) if len(texts) == len(messages) else None


def _example(values: dict[str, Any]) -> dict[str, Any]:
    reward_model = values.get("reward_model")
    truth = reward_model.get("ground_truth") if isinstance(reward_model, Mapping) else None
    known = {name: values[name] for name in ("id", "data_source", BASE_CORRECT) if name in values}
    return known | {"prompt": prompt_text(values.get("prompt")), "ground_truth": truth}
