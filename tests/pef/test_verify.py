"""Reference log-probs: resumed part by part, and computed again before the store takes its name.

tests/end_to_end checks the real program; here the engine is a language model of three lines.
"""

import pytest
import torch

from rl.common.errors import UserError
from verl.dph.pef.ref_logprobs import fill_in_parts
from verl.dph.pef.store import Row, Store
from verl.dph.pef.verify import (
    CHECKED_ROWS,
    FLOAT32_TOLERANCE,
    HALF_TOLERANCE,
    LOGIT_TOLERANCE,
    check_reference,
    difference,
)

VOCABULARY = 50
ORIGIN = {"model_hash": "a"}


class Engine:
    """A bigram model; `asked` are the ids of each call."""

    def __init__(self, dies_at: int | None = None):
        table = torch.randn(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(0))
        self.log_probs, self.dies_at, self.asked = table.log_softmax(-1), dies_at, []

    def __call__(self, rows: list[Row]) -> list[torch.Tensor]:
        if len(self.asked) == self.dies_at:
            raise KeyboardInterrupt
        self.asked.append([row.id for row in rows])
        previous = [torch.cat([row.prompt[-1:], row.response[:-1]]).long() for row in rows]
        return [self.log_probs[before, row.response.long()] for before, row in zip(previous, rows, strict=True)]


def bare_rows(count: int) -> list[Row]:
    """Without log-probs."""
    generator = torch.Generator().manual_seed(1)

    def ids(length: int) -> torch.Tensor:
        return torch.randint(VOCABULARY, (length,), dtype=torch.int32, generator=generator)

    return [Row(i, ids(3), ids(1 + i % 5), None) for i in range(count)]


def test_an_interrupted_run_computes_only_the_missing_parts(tmp_path):
    whole = bare_rows(10)
    assert fill_in_parts(whole, Engine(), folder=tmp_path / "whole", size=10, origin=ORIGIN) == 0

    with pytest.raises(KeyboardInterrupt):
        fill_in_parts(bare_rows(10), Engine(dies_at=2), folder=tmp_path / "x", size=3, origin=ORIGIN)
    resumed, engine = bare_rows(10), Engine()
    assert fill_in_parts(resumed, engine, folder=tmp_path / "x", size=3, origin=ORIGIN) == 6
    assert engine.asked == [[6, 7, 8], [9]]
    for row, expected in zip(resumed, whole, strict=True):
        assert torch.equal(row.ref_log_probs, expected.ref_log_probs)


def damage(path):
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("between", "asked"),
    [
        (damage, [[0, 1]]),
        (lambda path: path.write_bytes(path.with_name("00001.safetensors").read_bytes()), [[0, 1]]),
        (lambda path: path.with_name(".00000.safetensors.1.tmp").write_bytes(b"torn"), []),
    ],
)
def test_a_part_that_is_damaged_or_of_other_rows_is_computed_again(tmp_path, between, asked):
    fill_in_parts(bare_rows(4), Engine(), folder=tmp_path, size=2, origin=ORIGIN)
    between(tmp_path / "00000.safetensors")
    rows, engine = bare_rows(4), Engine()
    fill_in_parts(rows, engine, folder=tmp_path, size=2, origin=ORIGIN)
    assert engine.asked == asked
    assert all(torch.equal(row.ref_log_probs, Engine()([row])[0]) for row in rows)


def test_parts_of_another_model_or_other_responses_are_not_used(tmp_path):
    fill_in_parts(bare_rows(4), Engine(), folder=tmp_path, size=2, origin=ORIGIN)
    engine = Engine()
    assert fill_in_parts(bare_rows(4), engine, folder=tmp_path, size=2, origin=ORIGIN | {"model_hash": "b"}) == 0
    others = bare_rows(4)
    others[3].response[0] += 1
    assert fill_in_parts(others, engine, folder=tmp_path, size=2, origin=ORIGIN | {"model_hash": "b"}) == 2
    assert engine.asked == [[0, 1], [2, 3], [2, 3]]


def saved(tmp_path, rows: list[Row]) -> Store:
    path = str(tmp_path / "pef.pt")
    Store({}, rows).save(path)
    return Store.load(path)


def filled(count: int) -> list[Row]:
    rows = bare_rows(count)
    for row, log_probs in zip(rows, Engine()(rows), strict=True):
        row.ref_log_probs = log_probs.clone()
    return rows


FLOAT32 = {"dtype": "float32", "tolerance": None}


def test_a_hundred_random_rows_are_computed_again(tmp_path):
    engine = Engine()
    largest, allowed = check_reference(saved(tmp_path, filled(300)), "x.pt", engine, **FLOAT32, seed=1)
    assert largest <= 1e-6 and allowed == FLOAT32_TOLERANCE
    [asked] = engine.asked
    assert len(set(asked)) == CHECKED_ROWS and asked != sorted(asked)
    other = Engine()
    check_reference(saved(tmp_path, filled(300)), "x.pt", other, **FLOAT32, seed=2)
    assert other.asked != engine.asked


def test_a_row_that_comes_out_differently_is_named(tmp_path):
    rows = filled(20)
    rows[7].ref_log_probs[0] += 0.05
    with pytest.raises(UserError, match=r"1 of 20 rows differ, id 7 by 0.0\d+ nats in one of its tokens"):
        check_reference(saved(tmp_path, rows), "x.pt", Engine(), **FLOAT32, seed=1)
    wide = FLOAT32 | {"tolerance": 0.1}
    assert check_reference(saved(tmp_path, rows), "x.pt", Engine(), **wide, seed=1)[0] > 0.03


def test_log_probs_that_are_not_numbers_are_never_accepted(tmp_path):
    rows = filled(3)
    rows[1].ref_log_probs[0] = torch.nan
    with pytest.raises(UserError, match="id 1 by inf nats"):
        check_reference(saved(tmp_path, rows), "x.pt", Engine(), dtype="bfloat16", tolerance=1e3, seed=1)


def test_in_half_precision_the_mean_over_a_row_counts():
    stored, again = torch.tensor([-1.0, -2.0, -9.0]), torch.tensor([-1.03, -2.0, -9.0])
    assert difference(stored, again, "float32") == (pytest.approx(0.03, rel=1e-4), FLOAT32_TOLERANCE)
    assert difference(stored, again, "bfloat16", 0.03) == (pytest.approx(0.01, rel=1e-4), 0.03)
    allowed = LOGIT_TOLERANCE * (0.6321206 + 0.8646647 + 0.9998766) / 3  # 1 - e^-1, 1 - e^-2 and 1 - e^-9
    assert difference(stored, again, "float16") == (pytest.approx(0.01, rel=1e-4), pytest.approx(allowed, rel=1e-6))
    certain = torch.tensor([-1e-3, -1e-4])
    assert difference(certain, certain - 0.01, "float16") == (pytest.approx(0.01, rel=1e-3), HALF_TOLERANCE)


@pytest.mark.parametrize("scale", [2.0, 4.0, 8.0])
def test_bfloat16s_rounding_of_logits_is_allowed_and_another_temperature_is_not(scale):
    """Random logits from undecided to nearly certain, each rounded to one of its two neighbours in bfloat16."""
    generator = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(100, 1000, generator=generator)
    labels = torch.multinomial(logits.softmax(-1), 1, generator=generator)

    def log_probs(logits):
        return logits.log_softmax(-1).gather(1, labels)[:, 0]

    def rounded():
        step = torch.exp2(torch.floor(torch.log2(logits.abs())) - 7)
        return ((logits / step).floor() + torch.rand(logits.shape, generator=generator).round()) * step

    stored = log_probs(rounded())
    noise, allowed = difference(stored, log_probs(rounded()), "bfloat16")
    other, _ = difference(stored, log_probs(logits / 0.8), "bfloat16")
    assert 0 < noise < allowed < other
