"""The gradient of a mixed mini-batch, from verl's real FSDP2 worker on gloo.

It equals a plain-PyTorch gradient of the formula, on 1 rank and on 2, whatever the micro-batches and with dynamic
batching, for both normalisations.
"""

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

WORKER = Path(__file__).with_name("gradient_worker.py")
ETA, CLIP_LOW, CLIP_HIGH = 0.2, 0.2, 0.28
ACTOR = "actor_rollout_ref.actor."
JS = f"{ACTOR}sft_loss_mode=js_low_var,{ACTOR}sft_loss_coeff={ETA},{ACTOR}clip_ratio_high={CLIP_HIGH}"
FORWARD = JS.replace("js_low_var", "forward")
PER_SET = f"{ACTOR}sft_loss_normalization=per_set"
DYNAMIC = f"{ACTOR}use_dynamic_bsz=True,{ACTOR}ppo_max_token_len_per_gpu=48"


def micro(rows):
    return f"{ACTOR}ppo_micro_batch_size_per_gpu={rows}"


ONE_RANK = {
    "joint": f"{JS},{micro(12)}",
    "joint_micro_2": f"{JS},{micro(2)}",
    "joint_dynamic": f"{JS},{DYNAMIC}",
    "per_set": f"{JS},{PER_SET},{micro(12)}",
    "per_set_dynamic": f"{JS},{PER_SET},{DYNAMIC}",
    "forward": f"{FORWARD},{micro(4)}",
}
TWO_RANKS = {
    "joint_2_ranks": f"{JS},{micro(3)}",
    "joint_2_ranks_dynamic": f"{JS},{DYNAMIC}",
    "per_set_2_ranks": f"{JS},{PER_SET},{micro(2)}",
}


def start(model, folder, variants, ranks):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    arguments = [f"{name}:{overrides}" for name, overrides in variants.items()]
    env = os.environ | {
        "VERL_PLATFORM": "cpu",
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return [
        subprocess.Popen(
            [sys.executable, str(WORKER), model, str(folder), *arguments],
            env=env | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]


@pytest.fixture(scope="module")
def found(random_model, tmp_path_factory):
    """What the workers computed, by variant."""
    folder = tmp_path_factory.mktemp("gradients")
    for variants, ranks in ((ONE_RANK, 1), (TWO_RANKS, 2)):
        for process in start(random_model, folder, variants, ranks):
            output, _ = process.communicate(timeout=240)
            assert process.returncode == 0, output[-4000:]
    return {name: load_file(folder / f"{name}.safetensors") for name in [*ONE_RANK, *TWO_RANKS]}


def load_worker_module():
    spec = importlib.util.spec_from_file_location("gradient_worker", WORKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def js_doubled(d):
    """2 x JSD, half form, from its definition in probabilities."""
    u = d.exp()
    return u * d - (1 + u) * ((1 + u) / 2).log()


def plain_gradients(model_path, normalization, divergence=js_doubled):
    """The formula of METHOD.md, "Objective of one optimizer mini-batch", row by row with Hugging Face's forward."""
    from transformers import AutoModelForCausalLM

    worker = load_worker_module()
    exp, pef = worker.whole_step()
    model = AutoModelForCausalLM.from_pretrained(model_path)
    gradients = {}

    def log_probs(td, i):
        prompt, response = td["prompts"][i], td["responses"][i]
        logits = model(torch.cat([prompt, response])[None]).logits[0, len(prompt) - 1 : -1]
        return logits.log_softmax(-1).gather(1, response[:, None])[:, 0]

    for k in range(worker.MINI_BATCHES):
        model.zero_grad()
        policy = divergence_sum = torch.zeros(())
        n_exp = n_pef = 0
        size = worker.EXP_ROWS // worker.MINI_BATCHES
        for i in range(k * size, (k + 1) * size):
            ratio, advantage = (log_probs(exp, i) - exp["old_log_probs"][i]).exp(), exp["advantages"][i]
            clipped = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH) * advantage)
            # verl's dual clip: the loss of a negative advantage is bounded by 3 |A|
            clipped = torch.where(advantage < 0, torch.maximum(clipped, 3.0 * advantage), clipped)
            policy, n_exp = policy - clipped.sum(), n_exp + len(ratio)
        size = worker.PEF_ROWS // worker.MINI_BATCHES
        for i in range(k * size, (k + 1) * size):
            d = log_probs(pef, i) - pef["pef_ref_log_probs"][i]
            divergence_sum, n_pef = divergence_sum + divergence(d).sum(), n_pef + len(d)
        if normalization == "joint":
            loss = (policy + ETA * divergence_sum) / (n_exp + n_pef)
        else:
            loss = policy / n_exp + ETA * divergence_sum / n_pef
        loss.backward()
        gradients |= {f"{k}.{name}": p.grad.clone() for name, p in model.named_parameters()}
    return gradients


def assert_same_gradients(found, expected):
    compared = 0
    for name, gradient in expected.items():
        scale = gradient.abs().max()
        assert scale > 1e-4, f"{name} has no gradient to compare"
        torch.testing.assert_close(found[name], gradient, rtol=0, atol=2e-5 * float(scale) + 1e-7)
        compared += 1
    assert compared > 20


@pytest.mark.parametrize(
    ("variant", "normalization"), [("joint", "joint"), ("per_set", "per_set")]
)
def test_gradient_is_the_formulas(found, random_model, variant, normalization):
    assert_same_gradients(found[variant], plain_gradients(random_model, normalization))


def test_gradient_of_the_forward_kl_is_that_of_the_stored_responses(found, random_model):
    assert_same_gradients(found["forward"], plain_gradients(random_model, "joint", divergence=lambda d: -d))


@pytest.mark.parametrize(
    ("variant", "same_as"),
    [
        ("joint_micro_2", "joint"),
        ("joint_dynamic", "joint"),
        ("joint_2_ranks", "joint"),
        ("joint_2_ranks_dynamic", "joint"),
        ("per_set_dynamic", "per_set"),
        ("per_set_2_ranks", "per_set"),
    ],
)
def test_gradient_and_metrics_do_not_depend_on_ranks_or_micro_batches(found, variant, same_as):
    gradients = {name: value for name, value in found[same_as].items() if not name.startswith("metric.")}
    assert_same_gradients(found[variant], gradients)
    for name in (name for name in found[same_as] if name.startswith("metric.")):
        torch.testing.assert_close(found[variant][name], found[same_as][name], rtol=1e-4, atol=1e-6, msg=name)


def test_the_two_normalisations_differ(found):
    name = next(name for name in found["joint"] if name.startswith("0."))
    assert not torch.allclose(found["joint"][name], found["per_set"][name], rtol=1e-2)


def test_metrics_are_those_of_the_rows(found, random_model):
    """dph/tokens counts the D_pef tokens of each mini-batch; dph/divergence is their mean."""
    worker = load_worker_module()
    pef = worker.random_rows(worker.PEF_ROWS, seed=2)
    size = worker.PEF_ROWS // worker.MINI_BATCHES
    tokens = [sum(len(r.response) for r in pef[k * size :][:size]) for k in range(worker.MINI_BATCHES)]
    assert found["joint_2_ranks_dynamic"]["metric.dph/tokens"].tolist() == tokens
    per_set = found["per_set"]
    torch.testing.assert_close(per_set["metric.dph/loss"], ETA * per_set["metric.dph/divergence"])
