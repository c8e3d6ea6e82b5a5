"""The report on a D_pef store, which is memory-mapped, never unpickled, and read row by row."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.data.inspect.report import STORE, FileReport, Options, text_hash
from rl.data.wording import number_of

if TYPE_CHECKING:
    import torch

    from verl.dph.pef.store import Row

# An example shows this many token ids if no tokenizer is given.
_SHOWN_IDS = 12


def inspect_store(path: Path, options: Options) -> FileReport:
    """
    Raises:
        UserError: the file is not a store of this version, or is damaged.
    """
    from verl.dph.pef.store import Store  # loads verl and torch, which takes seconds

    store = Store.load(str(path))
    report, log_probs = FileReport(path, STORE, options), _LogProbs()
    prompts: dict[int | str, torch.Tensor] = {}
    for row in store.rows:
        if prompts.get(row.id) is not row.prompt:  # otherwise it is another response to the same prompt
            prompts[row.id] = row.prompt
            report.ids[row.id] += 1
            report.add_text(row.id, text_hash(row.prompt.numpy().tobytes()))
            report.lengths["prompt tokens"][len(row.prompt)] += 1
        report.lengths["response tokens"][len(row.response)] += 1
        report.add_row(row)
        log_probs.add(row)
    report.facts = store.meta | {"size": store.size(str(path))} | log_probs.facts()
    limit = store.meta.get("max_response_length")
    if limit and report.rows:
        responses = report.lengths["response tokens"].items()
        at_limit = sum(count for length, count in responses if isinstance(limit, int | float) and length >= limit)
        report.shares["responses as long as max_response_length"] = at_limit / report.rows
    report.examples = [_example(row, options.tokenizer) for row in report.chosen]
    report.problems = [] if report.rows else ["There is no row."]
    report.problems += report.duplicates() + log_probs.problems()
    if options.tokenizer_hash and store.meta.get("tokenizer_hash") != options.tokenizer_hash:
        report.problems.append("It was made with another tokenizer: the texts shown may be wrong.")
    if store.meta.get("rows", report.rows) != report.rows:
        report.problems.append(f"There are {report.rows} rows, but its metadata say {store.meta['rows']}.")
    return report


class _LogProbs:
    """Means over tokens with possible log-probs, and the number of rows with impossible log-probs."""

    def __init__(self) -> None:
        self._tokens, self._log_prob, self._lowest, self._top_tokens, self._top_mass = 0, 0.0, 0.0, 0, 0.0
        self._impossible = {"reference log-probs": 0, "top-k log-probs": 0}

    def add(self, row: "Row") -> None:
        assert row.ref_log_probs is not None  # every stored row has them
        possible = row.ref_log_probs.isfinite() & (row.ref_log_probs <= 0)
        self._impossible["reference log-probs"] += not bool(possible.all())
        log_probs = row.ref_log_probs[possible].double()
        self._tokens += len(log_probs)
        self._log_prob += float(log_probs.sum())
        self._lowest = min([self._lowest, *log_probs.tolist()])
        if row.top_log_probs is not None:
            mass = row.top_log_probs.double().exp().sum(-1)
            # A probability from a float16 log-prob is wrong by up to 0.4 % (at a log-prob of -8).
            possible = (mass >= 0) & (mass <= 1.01)
            self._impossible["top-k log-probs"] += not bool(possible.all())
            self._top_tokens += int(possible.sum())
            self._top_mass += float(mass[possible].sum())

    def facts(self) -> dict[str, float]:
        facts: dict[str, float] = {}
        if self._tokens:
            facts |= {"mean log-prob": self._log_prob / self._tokens, "lowest log-prob": self._lowest}
        if self._top_tokens:
            facts |= {"mean probability of the top-k": self._top_mass / self._top_tokens}
        return facts

    def problems(self) -> list[str]:
        found = [(number_of(count, "row"), what) for what, count in self._impossible.items() if count]
        return [f"{rows} with {what} that no distribution has." for rows, what in found]


def _example(row: "Row", tokenizer) -> dict[str, Any]:
    def text(ids: "torch.Tensor") -> str:
        if tokenizer is not None:
            return tokenizer.decode(ids.tolist())
        more = f" ... ({len(ids)})" if len(ids) > _SHOWN_IDS else ""
        return f"token ids {' '.join(map(str, ids[:_SHOWN_IDS].tolist()))}{more}"

    return {"id": row.id, "prompt": text(row.prompt), "response": text(row.response)}
