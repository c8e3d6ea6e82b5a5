"""What the keep-rate probe counts; tests/loggers has it in the real trainer."""

from types import SimpleNamespace

from verl.dph.training import keep_probe
from verl.dph.training.config import KEEP_RATE, NEWLY_SOLVED
from verl.dph.training.keep_probe import KeepProbe
from verl.dph.training.rollout_ledger import Scored

RIGHT, WRONG, UNJUDGED = ({"acc": acc, "gold_error": gold_error} for acc, gold_error in ((1, 0), (0, 0), (0, 1)))


def test_prompts_without_all_verdicts_are_left_out_and_counted(monkeypatch):
    """Training does so, too (rollout_ledger.py): a score of 0 says nothing where the reference cannot be evaluated. The
    last prompt has lost a rollout; with one sample it would be solved less often."""
    probe = object.__new__(KeepProbe)
    probe.settings = SimpleNamespace(n=2)
    probe.items = {KEEP_RATE: [{}] * 3, NEWLY_SOLVED: [{}] * 3}
    of_prompts = [[RIGHT, WRONG], [WRONG, WRONG], [UNJUDGED] * 2, [WRONG, RIGHT], [UNJUDGED] * 2, [RIGHT]]
    rows = [
        Scored(f"keep{prompt:06d}_{sample}_0", "sql", float(info["acc"]), info)
        for prompt, infos in enumerate(of_prompts)
        for sample, info in enumerate(infos)
    ]
    monkeypatch.setattr(keep_probe, "scored", lambda responses: rows)
    monkeypatch.setattr(keep_probe.KeepProbe, "_batch", lambda *arguments: None)
    monkeypatch.setattr(keep_probe, "tq", SimpleNamespace(kv_batch_put=lambda **_: None, kv_clear=lambda **_: None))
    trainer = SimpleNamespace(
        global_steps=1,
        agent_loop_manager=SimpleNamespace(generate_sequences=lambda batch: None),
        reward_loop_manager=SimpleNamespace(reward_loop_worker_handles=[]),
        replay_buffer=SimpleNamespace(sample=lambda **_: (SimpleNamespace(keys=[], partition_id="val"), None)),
    )
    assert probe.measure(trainer) == {
        KEEP_RATE: 1 / 2,
        NEWLY_SOLVED: 1.0,
        "dph/keep_prompts": 2,
        "dph/keep_unjudged": 3,
    }
