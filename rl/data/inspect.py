"""Show the contents of data files and their problems.

FILE is a parquet of prompts, a file of samples (JSON lines) or a D_pef store (.pt), recognised by its content. The
program prints counts, lengths, pass counts and a few rows, then the problems: unreadable rows, duplicate ids or
samples, and prompts that two of the parquets share. A store takes some seconds more, because torch and verl read it.
Exit code 0: no problem; 1: problems; 2: not one of these files (docs/reference/files.md).
"""

import argparse
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError, file_errors
from rl.common.outcomes import GOLD_FAILURES
from rl.common.text import named, number_of, printable, shortened, without_reference

PROBLEMS_EXIT_CODE = 1
PROMPTS = "prompts"
_SHOWN = ("id", "sample", "data_source", "score", "outcome", "truncated", "input", "output")


@dataclass
class Contents:
    """What a file holds.

    Attributes:
        counts: the number of rows by data_source, by outcome.
        lengths: for each measure of length, the length of each row.
        passes: the histogram of correct samples and Pass@k, as lines.
        examples: the first rows.
        ids: the number of prompts by id.
        texts: the id of the first prompt with each text, by the text's hash.
    """

    path: Path
    kind: str
    rows: int = 0
    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    lengths: defaultdict[str, array] = field(default_factory=lambda: defaultdict(lambda: array("q")))
    passes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    examples: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ids: Counter[int | str] = field(default_factory=Counter)
    texts: dict[int, int | str] = field(default_factory=dict)

    def add_row(self, row: dict[str, Any], shown: int) -> None:
        """Count a row, and keep it as an example if it is one of the first `shown`."""
        self.rows += 1
        if self.rows <= shown:
            self.examples.append(row)

    def add_prompt(self, id: int | str, text: str) -> None:
        self.ids[id] += 1
        self.texts.setdefault(hash(text), id)

    def repeated(self) -> list[str]:
        """Sentences about prompts that are there more than once."""
        prompts, found = self.ids.total(), []
        if again := [id for id, count in self.ids.items() if count > 1]:
            found.append(f"{number_of(prompts - len(self.ids), 'row')} with the id of an earlier row ({named(again)}).")
        if len(self.texts) < len(self.ids):
            found.append(f"Only {len(self.texts)} of {number_of(len(self.ids), 'prompt')} have a text of their own.")
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the files' contents, and return the exit code, 0 or PROBLEMS_EXIT_CODE."""
    options = parser().parse_args(arguments)
    with user_errors_exit():
        readers = [_reader(file) for file in options.files]  # before the first long read
        found = [read(file, options.examples) for read, file in zip(readers, options.files, strict=True)]
    problems = [f"{contents.path}: {problem}" for contents in found for problem in contents.problems] + leaks(found)
    lines = [line for contents in found for line in page(contents)] + ["Problems"]
    sys.stdout.write("\n".join(lines + [f"  - {printable(problem)}" for problem in problems or ["none"]]) + "\n")
    return PROBLEMS_EXIT_CODE if problems else 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dph inspect", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="parquet, JSON lines or .pt")
    parser.add_argument("--examples", type=int, default=2, help="rows to show per file (default: %(default)s)")
    return parser


def _reader(path: Path) -> Callable[[Path, int], Contents]:
    """The function that reads a file of this kind, which its first bytes tell."""
    with file_errors(path, "read", "give an existing file"), open(path, "rb") as file:
        return {b"PAR1": prompts_in, b"PK\x03\x04": store_in}.get(file.read(4), samples_in)


def prompts_in(path: Path, shown: int) -> Contents:
    from rl.common.parquet_file import open_parquet, rows_in
    from rl.data.rows import COLUMNS, to_row

    contents, rejected = Contents(path, PROMPTS), []
    with open_parquet(path, COLUMNS, "make it with dph prepare") as parquet:
        for number, values in enumerate(rows_in(parquet)):
            contents.add_row(values, shown)
            contents.counts["data_source"][str(values["data_source"])] += 1
            try:
                row = to_row(values, f"row {number}")
            except UserError as error:
                rejected.append(str(error))
                continue
            text = "\n".join(message["content"] for message in row.messages)
            values["prompt"] = text  # as an example shows it
            contents.add_prompt(row.id, text)
            contents.lengths["prompt characters"].append(len(text))
    contents.problems = [] if contents.rows else ["There is no row."]
    if rejected:
        contents.problems.append(f"{number_of(len(rejected), 'row')} cannot be sampled; the first: {rejected[0]}")
    contents.problems += contents.repeated()
    return contents


def samples_in(path: Path, shown: int) -> Contents:
    from rl.data.sample_file import UNJUDGED, parse_sample, read_metadata
    from rl.data.sample_summary import pass_lines

    contents, bad, repeated = Contents(path, "samples"), [], 0
    drawn: defaultdict[int, set[int]] = defaultdict(set)  # the samples' numbers by id
    correct: Counter[int] = Counter()
    gold_failed: Counter[int] = Counter()
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            sample = parse_sample(line)
            if sample is None:
                bad.append(number)
                continue
            if sample.id not in drawn:
                contents.add_prompt(sample.id, sample.input)
            if sample.sample in drawn[sample.id]:
                repeated += 1
                continue
            drawn[sample.id].add(sample.sample)
            correct[sample.id] += sample.acc or 0
            gold_failed[sample.id] += sample.outcome in GOLD_FAILURES
            for name in ("data_source", "outcome", "truncated"):
                contents.counts[name][str(getattr(sample, name))] += 1
            contents.lengths["output characters"].append(len(sample.output))
            contents.lengths["response tokens"].append(len(sample.response_ids))
            contents.add_row({name: getattr(sample, name) for name in _SHOWN}, shown)
    if not contents.rows:
        raise UserError(
            f"{path} is not one of the project's files: give a parquet of prompts, samples (JSON lines of dph "
            "presample) or a D_pef store (.pt)."
        )
    metadata = read_metadata(path)
    n = metadata.n
    contents.facts = asdict(metadata) | {"overlong_ids": len(metadata.overlong_ids)}
    odd = [id for id, numbers in drawn.items() if numbers != {*range(n)}]
    whole = [correct[id] for id in drawn.keys() - {*odd}]
    if whole and UNJUDGED not in contents.counts["outcome"]:
        contents.passes = pass_lines(whole, n)
    if bad:
        lines = f"{number_of(len(bad), 'line')} cannot be read as a sample (the first is line {bad[0]})"
        contents.problems.append(f"{lines}; a stopped sampler leaves its last line torn: re-run it to resume.")
    if repeated:
        contents.problems.append(f"{number_of(repeated, 'sample')} with the id and number of an earlier one.")
    if odd:
        contents.problems.append(f"{number_of(len(odd), 'prompt')} without all samples 0 to {n - 1} ({named(odd)}).")
    if metadata.rows != len(drawn):
        contents.problems.append(f"There are samples of {len(drawn)} of {number_of(metadata.rows, 'prompt')}.")
    if failed := [id for id, numbers in drawn.items() if gold_failed[id] == len(numbers)]:
        contents.problems.append(f"No reference: {without_reference(failed)}")
    contents.problems += contents.repeated()
    return contents


def store_in(path: Path, shown: int) -> Contents:
    """A D_pef store, which is memory-mapped and never unpickled."""
    from verl.dph.pef.store import Store  # loads verl and torch, which takes seconds

    store, contents, impossible = Store.load(str(path)), Contents(path, "D_pef store"), 0
    for stored in store.rows:
        contents.lengths["prompt tokens"].append(len(stored.prompt))
        contents.lengths["response tokens"].append(len(stored.response))
        contents.add_row({"id": stored.id, "prompt": stored.prompt, "response": stored.response}, shown)
        assert stored.ref_log_probs is not None  # every stored row has them
        impossible += not bool(stored.ref_log_probs.isfinite().all() and (stored.ref_log_probs <= 0).all())
    text = _decoder(store.meta)
    for row in contents.examples:
        row |= {"prompt": text(row["prompt"].tolist()), "response": text(row["response"].tolist())}
    contents.facts = {"prompts": len({row.id for row in store.rows}), "size": store.size(str(path))} | store.meta
    contents.problems = [] if store.rows else ["There is no row."]
    if impossible:
        contents.problems.append(f"{number_of(impossible, 'row')} with log-probs that no distribution has.")
    return contents


def _decoder(meta: Mapping[str, Any]) -> Callable[[list[int]], str]:
    """What makes a text of token ids: the tokenizer of the store's model, if its folder is still there."""
    from rl.common.fingerprint import tokenizer_hash
    from rl.data.tokenizer import load_tokenizer

    folder = Path(str(meta.get("model")))
    if folder.is_dir() and tokenizer_hash(folder) == meta.get("tokenizer_hash"):
        return load_tokenizer(folder).decode
    return lambda ids: f"token ids {' '.join(map(str, ids))}"


def leaks(found: Sequence[Contents]) -> list[str]:
    """A sentence for each pair of prompt files that share ids or texts; samples and stores share them by design."""
    sentences = []
    for a, b in combinations([contents for contents in found if contents.kind == PROMPTS], 2):
        ids = a.ids.keys() & b.ids.keys()
        texts = [id for text, id in a.texts.items() if text in b.texts]
        shared = [f"{number_of(len(ids), 'id')} ({named(sorted(ids))})"] if ids else []
        shared += [f"{number_of(len(texts), 'prompt text')} ({named(texts)} in {a.path.name})"] if texts else []
        if shared:
            sentences.append(f"{a.path} and {b.path} share {' and '.join(shared)}.")
    return sentences


def page(contents: Contents) -> list[str]:
    """The lines about a file: what it holds, where it is from, examples."""
    import numpy as np

    lines = [str(contents.path), f"  {contents.kind}, {contents.rows:,} rows"]
    for name, counts in contents.counts.items():
        lines.append(f"  {name}: " + ", ".join(f"{printable(value)} {n:,}" for value, n in counts.most_common()))
    for what, values in contents.lengths.items():
        least, median, p99, most = np.quantile(values, [0, 0.5, 0.99, 1], method="inverted_cdf").tolist()
        lines.append(f"  {what}: {least:,} to {most:,}, median {median:,}, 99 % up to {p99:,}")
    lines += [f"  {line}" for line in contents.passes]
    lines += [f"  {name}: {shortened(value)}" for name, value in contents.facts.items()]
    for place, example in enumerate(contents.examples, start=1):
        lines.append(f"  example {place}")
        lines += [f"    {name}: " + shortened(value).replace("\n", "\n      ") for name, value in example.items()]
    return lines
