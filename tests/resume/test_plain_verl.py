"""Rehearsal that weighs nothing is verl's GRPO: eta = 0 with per_set, beside sft_loss_mode=none, in whole runs.

D_pef rows are in every mini-batch, so the micro-batches hold other rows than verl's, and gradients are summed in
another order: the numbers agree to rounding, not to the bit.
"""

import pytest
from safetensors.torch import load_file

from tests.resume.conftest import STOP

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STEPS = range(1, STOP + 1)
# Not among them: means over micro-batches, such as actor/ppo_kl, which verl weighs alike and we by their tokens.
OF_THE_POLICY_LOSS = ("actor/pg_loss", "actor/loss", "actor/grad_norm", "actor/entropy")


@pytest.fixture(scope="module")
def runs(task):
    """verl's GRPO, and rehearsal that weighs nothing, beside js_kl at once."""
    task.train("grpo", "plain", steps=STOP)
    task.train("js_kl", "weightless", "0", steps=STOP)
    return task


def largest_difference(task, name: str) -> float:
    """Between the weights of a run and of verl's after the same steps."""
    plain, other = (
        load_file(task.checkpoint(run, STOP) / "huggingface" / "model.safetensors") for run in ("plain", name)
    )
    assert plain.keys() == other.keys()
    return max(float((plain[key] - other[key]).abs().max()) for key in plain)


def test_rollouts_are_the_same(runs):
    plain = [runs.rollouts("plain", step) for step in STEPS]
    assert all(len(step) == 16 for step in plain) and len({score for step in plain for *_, score in step}) > 1
    assert [runs.rollouts("weightless", step) for step in STEPS] == plain


def test_the_policy_loss_and_its_gradient_are_verls_in_every_step(runs):
    plain, weightless = runs.metrics("plain"), runs.metrics("weightless")
    assert list(plain) == list(weightless) == list(STEPS)
    for step in plain:
        assert weightless[step]["dph/rows"] == 4 and "dph/rows" not in plain[step]
        for name in OF_THE_POLICY_LOSS:
            assert weightless[step][name] == pytest.approx(plain[step][name], rel=1e-5, abs=1e-6), (step, name)
    assert any(abs(metrics["dph/divergence"]) > 1e-4 for metrics in weightless.values())


def test_the_weights_are_verls(runs):
    model = load_file(runs.folder / "model" / "model.safetensors")
    trained = load_file(runs.checkpoint("plain", STOP) / "huggingface" / "model.safetensors")
    moved = max(float((trained[key] - model[key]).abs().max()) for key in model)
    assert largest_difference(runs, "weightless") < 1e-3 * moved


def test_a_divergence_with_a_weight_would_be_noticed(runs):
    plain, weighty = runs.metrics("plain"), runs.metrics("at_once")
    gradients = [(plain[step]["actor/grad_norm"], weighty[step]["actor/grad_norm"]) for step in STEPS]
    assert any(one != pytest.approx(other, rel=1e-3) for one, other in gradients)
    assert largest_difference(runs, "at_once") > 10 * largest_difference(runs, "weightless")
