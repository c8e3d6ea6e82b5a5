"""Rehearsal that weighs nothing is verl's GRPO: eta = 0 with per_set, beside sft_loss_mode=none, in whole runs.

D_pef rows are in every mini-batch, so the micro-batches hold other rows than verl's, and gradients are summed in
another order: the numbers agree to rounding, not to the bit.
"""

import json

import pytest
from safetensors.torch import load_file

pytestmark = pytest.mark.timeout(900)

STEPS = 4
# What the two kinds of run have in common, beside the clip ratios that their scripts choose.
SETTINGS = (
    "actor_rollout_ref.actor.checkpoint.save_contents=[model,hf_model]",
    "actor_rollout_ref.actor.clip_ratio_high=0.2",
)
# Not among them: means over micro-batches, such as actor/ppo_kl, which verl weighs alike and we by their tokens.
OF_THE_POLICY_LOSS = ("actor/pg_loss", "actor/loss", "actor/grad_norm", "actor/entropy")


@pytest.fixture(scope="module")
def runs(task):
    """verl's loss, and rehearsal with eta = 0 and with eta = 1."""
    for script, name, *eta in (("grpo", "plain"), ("js_kl", "weightless", "0"), ("js_kl", "weighty", "1")):
        rollouts = f"trainer.rollout_data_dir={task.folder / 'rollouts' / name}"
        task.train(script, name, *eta, *SETTINGS, rollouts, steps=STEPS, SAVE_FREQ=str(STEPS))
    return task


def rollouts(task, name: str) -> list[list[tuple]]:
    """(prompt, response, score) of every sample, by step."""
    files = [task.folder / "rollouts" / name / f"{step}.jsonl" for step in range(1, STEPS + 1)]
    samples = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    return [[(row["input"], row["output"], row["score"]) for row in step] for step in samples]


def largest_difference(task, name: str) -> float:
    """Between the final weights of a run and of verl's."""
    plain, other = (
        load_file(task.checkpoint(run, STEPS) / "huggingface" / "model.safetensors") for run in ("plain", name)
    )
    assert plain.keys() == other.keys()
    return max(float((plain[key] - other[key]).abs().max()) for key in plain)


def test_rollouts_are_the_same(runs):
    plain = rollouts(runs, "plain")
    assert all(len(step) == 16 for step in plain) and len({score for step in plain for *_, score in step}) > 1
    assert rollouts(runs, "weightless") == plain


def test_the_policy_loss_and_its_gradient_are_verls_in_every_step(runs):
    plain, weightless = runs.metrics("plain"), runs.metrics("weightless")
    assert list(plain) == list(weightless) == list(range(1, STEPS + 1))
    for step in plain:
        assert weightless[step]["dph/rows"] == 4 and "dph/rows" not in plain[step]
        for name in OF_THE_POLICY_LOSS:
            assert weightless[step][name] == pytest.approx(plain[step][name], rel=1e-5, abs=1e-6), (step, name)
    assert any(abs(metrics["dph/divergence"]) > 1e-4 for metrics in weightless.values())


def test_the_weights_are_verls(runs):
    model = load_file(runs.folder / "model" / "model.safetensors")
    trained = load_file(runs.checkpoint("plain", STEPS) / "huggingface" / "model.safetensors")
    moved = max(float((trained[key] - model[key]).abs().max()) for key in model)
    assert largest_difference(runs, "weightless") < 1e-3 * moved


def test_a_divergence_with_a_weight_would_be_noticed(runs):
    plain, weighty = runs.metrics("plain"), runs.metrics("weighty")
    gradients = [(plain[step]["actor/grad_norm"], weighty[step]["actor/grad_norm"]) for step in plain]
    assert any(one != pytest.approx(other, rel=1e-3) for one, other in gradients)
    assert largest_difference(runs, "weighty") > 10 * largest_difference(runs, "weightless")
