"""A D_pef store: memory-mapped, never unpickled, read row by row."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.data.inspect.file_kinds import STORE
from rl.data.inspect.file_report import FileReport, Options
from rl.data.inspect.tally import Keys, Reservoir, length_summary, text_hash
from rl.data.wording import number_of

if TYPE_CHECKING:
    import torch

    from verl.dph.pef.store import Row, Store

# Token ids of an example without a tokenizer.
_SHOWN_IDS = 12


def inspect_store(path: Path, options: Options) -> FileReport:
    """
    Raises:
        UserError: the file is no store of this version, or is damaged.
    """
    from verl.dph.pef.store import Store  # loads verl and torch: seconds that other files do not take

    store = Store.load(str(path))
    tally = _Tally(options)
    for row in store.rows:
        tally.add(row)
    limit = store.meta.get("max_response_length")
    responses = tally.lengths["response tokens"]
    at_limit = sum(count for length, count in responses.items() if isinstance(limit, int | float) and length >= limit)
    return FileReport(
        path=str(path),
        kind=STORE,
        rows=len(store),
        facts=store.meta | {"size": store.size(str(path))} | tally.log_prob_facts(),
        lengths={what: length_summary(lengths) for what, lengths in tally.lengths.items() if lengths},
        shares={"responses as long as max_response_length": at_limit / len(store)} if limit and len(store) else {},
        examples=[_example(row, options.tokenizer) for row in tally.examples.rows],
        problems=tally.problems() + _origin_problems(store, options.tokenizer_hash),
        keys=tally.keys,
    )


class _Tally:
    def __init__(self, options: Options):
        self.keys, self.examples = Keys(), Reservoir(options.examples, options.seed)
        self.lengths: dict[str, Counter[int]] = {"prompt tokens": Counter(), "response tokens": Counter()}
        self._tokens, self._log_prob, self._lowest, self._top_tokens, self._top_mass = 0, 0.0, 0.0, 0, 0.0
        self._impossible = self._impossible_top = 0

    def add(self, row: "Row") -> None:
        self.keys.ids.append(row.id)
        self.keys.add_text(row.id, text_hash(row.prompt.numpy().tobytes()))
        self.lengths["prompt tokens"][len(row.prompt)] += 1
        self.lengths["response tokens"][len(row.response)] += 1
        self.examples.add(row)
        assert row.ref_log_probs is not None  # every stored row has them
        possible = row.ref_log_probs.isfinite() & (row.ref_log_probs <= 0)
        self._impossible += not bool(possible.all())
        log_probs = row.ref_log_probs[possible].double()
        self._tokens += len(log_probs)
        self._log_prob += float(log_probs.sum())
        self._lowest = min([self._lowest, *log_probs.tolist()])
        if row.top_log_probs is not None:
            self._add_top(row.top_log_probs)

    def _add_top(self, log_probs: "torch.Tensor") -> None:
        mass = log_probs.double().exp().sum(-1)
        # float16 log-probs: a probability is off by up to 0.4 % (at a log-prob of -8).
        possible = (mass >= 0) & (mass <= 1.01)
        self._impossible_top += not bool(possible.all())
        self._top_tokens += int(possible.sum())
        self._top_mass += float(mass[possible].sum())

    def log_prob_facts(self) -> dict[str, float]:
        facts: dict[str, float] = {}
        if self._tokens:
            facts |= {"mean log-prob": self._log_prob / self._tokens, "lowest log-prob": self._lowest}
        if self._top_tokens:
            facts |= {"mean probability of the top-k": self._top_mass / self._top_tokens}
        return facts

    def problems(self) -> list[str]:
        empty = [] if self.keys.ids else ["There is no row."]
        impossible = {"reference log-probs": self._impossible, "top-k log-probs": self._impossible_top}
        return (
            empty
            + self.keys.problems()
            + [
                f"{number_of(count, 'row')} with {what} that no distribution has."
                for what, count in impossible.items()
                if count
            ]
        )


def _origin_problems(store: "Store", tokenizer_hash: str | None) -> list[str]:
    problems = []
    if tokenizer_hash and store.meta.get("tokenizer_hash") != tokenizer_hash:
        problems.append("It was made with another tokenizer than the one given: do not trust the texts shown.")
    if store.meta.get("rows", len(store)) != len(store):
        problems.append(f"There are {len(store)} rows, but its metadata say {store.meta['rows']}.")
    return problems


def _example(row: "Row", tokenizer) -> dict[str, Any]:
    def text(ids: "torch.Tensor") -> str:
        if tokenizer is not None:
            return tokenizer.decode(ids.tolist())
        more = f" ... ({len(ids)})" if len(ids) > _SHOWN_IDS else ""
        return f"token ids {' '.join(map(str, ids[:_SHOWN_IDS].tolist()))}{more}"

    return {"id": row.id, "prompt": text(row.prompt), "response": text(row.response)}
