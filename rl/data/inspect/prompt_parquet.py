"""A parquet of prompts: training or evaluation rows, or a part of the split, which knows base_correct."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rl.common.errors import UserError
from rl.data.inspect.file_kinds import PROMPTS
from rl.data.inspect.file_report import FileReport, Options, pass_summary
from rl.data.inspect.parquet import parquet_rows
from rl.data.inspect.tally import Keys, Reservoir, length_summary, text_hash
from rl.data.rows import COLUMNS, to_row
from rl.data.sample_file import MOST_SAMPLES
from rl.data.split import BASE_CORRECT
from rl.data.wording import number_of


def inspect_prompts(path: Path, options: Options) -> FileReport:
    schema = pq.read_schema(path)
    problems = [f"There is no column {name}." for name in COLUMNS if name not in schema.names]
    columns = [name for name in (*COLUMNS, BASE_CORRECT) if name in schema.names]
    tally = _Tally(options, checks_rows=not problems)
    for number, values in enumerate(parquet_rows(path, columns, problems)):
        tally.add(number, values)
    if not tally.rows:
        problems.append("There is no row.")
    if tally.rejected:
        problems.append(
            f"The sampler rejects {tally.rejected} of {tally.rows} rows; the first: {tally.first_rejection}"
        )
    if tally.impossible:
        problems.append(f"{number_of(tally.impossible, 'row')} with a {BASE_CORRECT} that is no number of samples.")
    return FileReport(
        path=str(path),
        kind=f"{PROMPTS}, a part of the split" if BASE_CORRECT in schema.names else PROMPTS,
        rows=tally.rows,
        facts={"columns": {item.name: _short_type(str(item.type)) for item in schema}},
        counts={"data_source": dict(tally.sources.most_common())},
        lengths={what: length_summary(lengths) for what, lengths in tally.lengths.items()},
        passes=pass_summary(tally.correct, None),
        examples=[_example(values) for values in tally.examples.rows],
        problems=problems + tally.keys.problems(),
        keys=tally.keys,
    )


class _Tally:
    def __init__(self, options: Options, checks_rows: bool):
        self.rows, self.rejected, self.first_rejection = 0, 0, ""
        self.impossible = 0  # rows by their BASE_CORRECT
        self.sources: Counter[str] = Counter()
        self.correct: list[int] = []
        self.keys = Keys()
        measures = ["prompt characters", "prompt tokens"] if options.tokenizer else ["prompt characters"]
        self.lengths: dict[str, Counter[int]] = {measure: Counter() for measure in measures}
        self.examples = Reservoir(options.examples, options.seed)
        self._tokenizer, self._checks_rows = options.tokenizer, checks_rows

    def add(self, number: int, values: dict[str, Any]) -> None:
        self.rows += 1
        self.examples.add(values)
        self.sources[str(values.get("data_source"))] += 1
        correct = values.get(BASE_CORRECT)
        if isinstance(correct, int) and 0 <= correct < MOST_SAMPLES:
            self.correct.append(correct)
        elif correct is not None:
            self.impossible += 1
        id = values.get("id")
        if isinstance(id, int | str):
            self.keys.ids.append(id)
        self._check(number, values)
        self._add_prompt(id if isinstance(id, int | str) else f"row {number}", values.get("prompt"))

    def _check(self, number: int, values: dict[str, Any]) -> None:
        if not self._checks_rows:
            return
        try:
            to_row(values, f"row {number}")
        except UserError as error:
            self.rejected += 1
            self.first_rejection = self.first_rejection or str(error)

    def _add_prompt(self, id: int | str, messages: Any) -> None:
        text = prompt_text(messages)
        if text is None:
            return
        self.keys.add_text(id, text_hash(text))
        self.lengths["prompt characters"][len(text)] += 1
        if self._tokenizer is not None:
            tokens = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
            self.lengths["prompt tokens"][len(tokens)] += 1


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


def _short_type(name: str) -> str:
    return name.split("<")[0]
