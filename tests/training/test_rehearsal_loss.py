"""The gradient of a mixed mini-batch, from verl's real FSDP2 worker on gloo, equals the one of plain_formulas.py: on 1
rank and on 2, whatever the micro-batches and with dynamic batching, for both normalisations.
"""

import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.metric import Metric

from benchmarks.standalone_worker import batch_of
from tests.conftest import free_port
from tests.programs import REPOSITORY
from tests.training import gradient_worker as worker
from tests.training import plain_formulas as plain
from verl.dph.objective.rehearsal import rehearsal_loss, update_metrics
from verl.dph.training.config import terms

ACTOR = "actor_rollout_ref.actor."


def mode(name, *more):
    """The overrides of a mode; D_pef is there unless a setting says otherwise."""
    settings = [f"sft_loss_mode={name}", f"sft_loss_coeff={plain.ETA}"]
    settings += [f"clip_ratio_high={plain.CLIP_HIGH}", f"alpha_coeff={plain.ALPHA}"]
    own = [part for part in more if "." in part.split("=")[0]]
    settings += [part for part in more if part not in own]
    pef = [] if "data.sft_pt=null" in own else ["data.sft_pt=there"]
    return ";".join([ACTOR + part for part in settings] + own + pef)


def micro(rows):
    return f"ppo_micro_batch_size_per_gpu={rows}"


PER_SET, REFERENCE = "sft_loss_normalization=per_set", "use_kl_loss=True"
UNBOUNDED = "sft_log_ratio_max=null"
TAIL = ("sft_baseline=tail", UNBOUNDED)
ESTIMATORS = (*TAIL, f"sft_js_exp_weight={plain.WEIGHT}", f"sft_importance_max={plain.IMPORTANCE}")
ESTIMATORS += (f"sft_policy_log_ratio_max={plain.POLICY_BOUND}",)
DYNAMIC = ("use_dynamic_bsz=True", "ppo_max_token_len_per_gpu=48")
PACKED, NO_PEF = "actor_rollout_ref.model.use_remove_padding=True", "data.sft_pt=null"
ENTROPY = "calculate_entropy=True"
BF16 = f"++{ACTOR}fsdp_config.mixed_precision.param_dtype=bf16"  # verl's default on GPUs: autocast
# The logits are needed again for the bonus's own gradient, after the gradient of the log-probs.
BONUS = "entropy_coeff=0.1"
MASKED_ROW = 5
MASKED = f"+trainer.masked_rows=[{MASKED_ROW}]"
FIRST_MINI_BATCH = range(8)
NO_ROLLOUT = f"+trainer.masked_rows={list(FIRST_MINI_BATCH)}".replace(" ", "")
# verl's loss for log-probs of the rollout engine; ppo_clip by default.
POLICY_LOSS = f"{ACTOR}policy_loss."
BYPASS = f"{POLICY_LOSS}loss_mode=bypass_mode"
KL_COV = ("loss_mode=kl_cov", f"kl_cov_ratio={plain.KL_COV_SHARE}", f"ppo_kl_coef={plain.KL_COV_COEF}")
# All tokens between the bounds, where verl draws some of them at random.
CLIP_COV = ("loss_mode=clip_cov", "clip_cov_ratio=1.0", f"clip_cov_lb={plain.COV_LOW}", f"clip_cov_ub={plain.COV_HIGH}")
KL_COV, CLIP_COV = ([POLICY_LOSS + setting for setting in settings] for settings in (KL_COV, CLIP_COV))
CAP = "algorithm.success_cap=0.75"
ANCHOR = ("data.sft_anchor_pt=there", f"sft_anchor_coeff={plain.ANCHOR_COEFF}")
MAXRL = "algorithm.adv_estimator=maxrl"
RANK, LORA_ALPHA = 4, 8
LORA = (f"actor_rollout_ref.model.lora_rank={RANK}", f"actor_rollout_ref.model.lora_alpha={LORA_ALPHA}")
ATTENTION = "actor_rollout_ref.model.override_config.attn_implementation=packed_attention"
ULYSSES = ("ulysses_sequence_parallel_size=2", *DYNAMIC, PACKED, ATTENTION)

ONE_RANK = {
    "joint": mode("js_low_var", ENTROPY, micro(12)),
    "joint_bf16": mode("js_low_var", *DYNAMIC, PACKED, BF16),
    "joint_micro_2": mode("js_low_var", micro(2)),
    "joint_dynamic": mode("js_low_var", *DYNAMIC),
    "joint_packed": mode("js_low_var", *DYNAMIC, PACKED),
    "bonus": mode("js_low_var", BONUS, micro(12)),
    "bonus_packed": mode("js_low_var", BONUS, *DYNAMIC, PACKED),
    "per_set": mode("js_low_var", PER_SET, micro(12)),
    "rehearsal_alone": mode("js_low_var", PER_SET, "policy_loss_coeff=0", micro(12)),
    "forward": mode("forward", micro(4)),
    "chi_square": mode("chi_square", micro(12)),
    "js": mode("js", REFERENCE, micro(12)),
    "js_per_set": mode("js", REFERENCE, PER_SET, micro(4)),
    "js_estimators": mode("js", REFERENCE, *ESTIMATORS, micro(4)),
    "tail": mode("js_low_var", *TAIL, micro(12)),
    "reverse_kl": mode("reverse_kl", REFERENCE, NO_PEF, micro(8)),
    "alpha": mode("alpha", UNBOUNDED, micro(12)),
    "alpha_policy": mode("alpha", REFERENCE, NO_PEF, micro(8)),
    "joint_2_epochs": mode("js_low_var", "ppo_epochs=2", micro(12)),
    "lora": mode("js_low_var", micro(12), *LORA),
    "joint_masked": mode("js_low_var", micro(12), MASKED),
    "bypass_micro_1": mode("js_low_var", BYPASS, micro(1)),
    "js_bypass_micro_1": mode("js", REFERENCE, PER_SET, BYPASS, micro(1)),
    "kl_cov_micro_4": mode("forward", PER_SET, *KL_COV, micro(4)),
    "clip_cov": mode("js_low_var", *CLIP_COV, micro(12)),
    "cap": mode("js_low_var", micro(12), CAP),
    "anchor": mode("forward", PER_SET, micro(12), *ANCHOR),
    "anchor_joint": mode("js_low_var", micro(2), ANCHOR[0]),
    "maxrl": mode("forward", PER_SET, micro(12), MAXRL),
    "per_set_no_rollout": mode("js_low_var", PER_SET, micro(3), NO_ROLLOUT),
    "reverse_kl_no_rollout": mode("reverse_kl", REFERENCE, NO_PEF, micro(4), NO_ROLLOUT),
    "js_per_set_masked": mode("js", REFERENCE, PER_SET, micro(4), MASKED),
}
# The same on 2 ranks, in other micro-batches: of the variants above, by name.
ON_TWO_RANKS = dict.fromkeys(("joint", "js", "js_estimators", "lora", "cap", "maxrl"), [micro(3)])
ON_TWO_RANKS |= dict.fromkeys(("per_set", "reverse_kl", "anchor"), DYNAMIC)
TWO_RANKS = {
    f"{name}_2_ranks": ";".join([ONE_RANK[name], *(ACTOR + setting for setting in settings)])
    for name, settings in ON_TWO_RANKS.items()
}
TWO_RANKS |= {"joint_ulysses": mode("js_low_var", *ULYSSES), "js_ulysses": mode("js", REFERENCE, *ULYSSES)}


pytestmark = pytest.mark.timeout(900)


def start(model, folder, variants, ranks):
    arguments = [f"{name}:{overrides}" for name, overrides in variants.items()]
    env = os.environ | {
        "PYTHONPATH": str(REPOSITORY),
        "VERL_PLATFORM": "cpu",
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    return [
        subprocess.Popen(
            [sys.executable, worker.__file__, model, str(folder), *arguments],
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
    processes = start(random_model, folder, ONE_RANK, 1) + start(random_model, folder, TWO_RANKS, 2)
    try:
        for process in processes:
            output, _ = process.communicate(timeout=600)
            assert process.returncode == 0, output[-4000:]
    finally:
        for process in processes:
            process.kill()
    return {name: load_file(folder / f"{name}.safetensors") for name in [*ONE_RANK, *TWO_RANKS]}


def assert_same_gradients(found, expected):
    assert len(expected) >= 20
    for name, gradient in expected.items():
        scale = gradient.abs().max()
        assert scale > 1e-4, f"{name} has no gradient to compare"
        torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-5 * float(scale) + 1e-7)


@pytest.mark.parametrize("variant", plain.FORMULAS)
def test_gradient_is_the_formulas(found, random_model, variant):
    assert_same_gradients(found[variant], plain.gradients(random_model, plain.FORMULAS[variant]))


@pytest.mark.parametrize(
    ("variant", "same_as"),
    [
        ("joint_micro_2", "joint"),
        ("joint_dynamic", "joint"),
        ("bypass_micro_1", "joint"),
        ("js_bypass_micro_1", "js_per_set"),
        ("joint_packed", "joint"),
        ("bonus_packed", "bonus"),
        *((f"{name}_2_ranks", name) for name in ON_TWO_RANKS),
        ("joint_ulysses", "joint"),
        ("js_ulysses", "js"),
    ],
)
def test_gradient_and_metrics_do_not_depend_on_ranks_or_micro_batches(found, variant, same_as):
    # An adapter's A has no gradient at first, because its B is 0.
    gradients = {name: value for name, value in found[same_as].items() if name[0] in "01" and ".lora_A." not in name}
    assert_same_gradients(found[variant], gradients)
    for name in (name for name in found[same_as] if name.startswith("metric.")):
        torch.testing.assert_close(found[variant][name], found[same_as][name], rtol=1e-4, atol=1e-6, msg=name)


def test_bf16_only_rounds_the_gradient(found):
    names = [name for name in found["joint"] if name[0] in "01"]
    whole, rounded = (torch.cat([found[run][name].flatten() for name in names]) for run in ("joint", "joint_bf16"))
    assert 1e-4 < (rounded - whole).norm() / whole.norm() < 0.1
    assert torch.equal(found["joint_bf16"]["metric.dph/tokens"], found["joint"]["metric.dph/tokens"])


@pytest.mark.parametrize(
    ("masked", "variant", "without"),
    [
        ("joint_masked", "joint", [MASKED_ROW]),
        ("js_per_set_masked", "js_per_set", [MASKED_ROW]),
        ("per_set_no_rollout", "per_set", FIRST_MINI_BATCH),  # only D_pef is left of it
    ],
)
def test_a_rollout_that_failed_has_no_gradient(found, random_model, masked, variant, without):
    """The padding in its place has none either, and neither counts among the tokens."""
    expected = plain.gradients(random_model, plain.FORMULAS[variant], without=without)
    assert_same_gradients(found[masked], expected)
    of_its_mini_batch = [name for name in expected if name[0] == "0"]
    assert not any(torch.allclose(found[variant][name], expected[name]) for name in of_its_mini_batch)


def test_a_mini_batch_without_a_token_has_no_gradient(found):
    """Every rollout of the first failed, and the mode has no D_pef."""
    gradients, whole = found["reverse_kl_no_rollout"], found["reverse_kl"]
    names = [name for name in whole if name[:2] in ("0.", "1.")]
    assert all(not gradients[name].any() for name in names if name[0] == "0")
    assert_same_gradients(gradients, {name: whole[name] for name in names if name[0] == "1"})


def test_metrics_are_those_of_the_rows(found):
    """dph/tokens counts the D_pef tokens of each mini-batch; dph/divergence is their mean."""
    pef = worker.random_rows(worker.PEF_ROWS, seed=2)
    size = worker.PEF_ROWS // worker.MINI_BATCHES
    tokens = [sum(len(r.response) for r in pef[k * size :][:size]) for k in range(worker.MINI_BATCHES)]
    assert found["per_set_2_ranks"]["metric.dph/tokens"].tolist() == tokens
    per_set = found["per_set"]
    torch.testing.assert_close(per_set["metric.dph/loss"], plain.ETA * per_set["metric.dph/divergence"])


def test_the_tokens_above_the_bound_are_counted(found, random_model):
    """A form without a bound counts none."""
    model, size, expected = AutoModelForCausalLM.from_pretrained(random_model), worker.PEF_ROWS // 2, []
    _, rows = worker.whole_step()
    for part in (rows[:size], rows[size:]):
        with torch.no_grad():
            log_probs = torch.cat([plain.log_probs_of(model, row) for row in part])
        log_ratio = log_probs - torch.cat([row["pef_ref_log_probs"] for row in part])
        expected.append((log_ratio > plain.BOUND).float().mean())
    assert max(expected) > 0
    for variant in ("joint", "joint_2_ranks"):
        torch.testing.assert_close(found[variant]["metric.dph/clip_fraction"], torch.stack(expected))
    assert not found["tail"]["metric.dph/clip_fraction"].any()


def test_verls_losses_are_means_over_d_exp_whatever_the_normalization(found):
    """Under joint they were divided by the tokens of both sets. Before the first update the policies are the same."""
    for name in ("actor/pg_loss", "actor/ppo_kl"):
        joint, per_set = (found[variant][f"metric.{name}"][0] for variant in ("joint", "per_set"))
        torch.testing.assert_close(joint, per_set, rtol=1e-5, atol=1e-8)
    assert found["joint"]["metric.actor/pg_loss"][0] != 0


def test_metrics_are_means_over_the_tokens_that_rollout_correction_accepts(random_model):
    """verl takes the rejected ones out of response_mask and leaves them in loss_mask, which counts the loss's tokens.
    A response of each micro-batch is rejected, the whole second mini-batch too."""
    settings = (REFERENCE, NO_PEF, micro(4), "sft_policy_log_ratio_max=1e-6")
    config = worker.build_config(random_model, mode("reverse_kl", *settings).split(";"))
    actor, rows, g = omega_conf_to_dataclass(config.actor_rollout_ref.actor), worker.whole_step()[0], torch.Generator()
    for number, row in enumerate(rows):
        if number % 4 == 0 or number >= 8:
            row["response_mask"] = torch.zeros_like(row["response_mask"])
    found, kls = {}, []
    for first in (0, 8):
        tokens = sum(len(row["responses"]) for row in rows[first : first + 8])
        outputs = []
        for start in (first, first + 4):
            part = [{k: v for k, v in row.items() if not k.startswith("pef_")} for row in rows[start : start + 4]]
            data = batch_of(part)
            tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=tokens, global_batch_size=8)
            log_probs = [torch.rand(len(row["input_ids"]), generator=g) - 2 for row in part]
            loss_input = {"log_probs": torch.nested.as_nested_tensor(log_probs, layout=torch.jagged)}
            outputs.append(rehearsal_loss(actor, data, loss_input, terms=terms(config))[1])
            for row, values in zip(part, log_probs, strict=True):
                new = values[len(row["prompts"]) - 1 : -1]
                kls += (row["old_log_probs"] - new)[row["response_mask"].bool()].tolist()
        for name in outputs[0]:
            if isinstance(outputs[0][name], Metric):
                total = sum(output[name].aggregate() for output in outputs)
                found.setdefault(name, []).append(float(total))
    logged = update_metrics(found | {"mfu": [0.1]})
    assert logged["actor/ppo_kl"] == pytest.approx(sum(kls) / len(kls) / 2, rel=1e-5)  # the second mini-batch has none
    assert logged["dph/policy_clip_fraction"] == pytest.approx(0.5)  # the first has 1


def test_every_epoch_visits_the_same_rows(found):
    """ppo_epochs=2: the weights stay as they are here, so that the second epoch repeats the first."""
    once, twice = found["joint"], found["joint_2_epochs"]
    names = [name.removeprefix("0.") for name in once if name.startswith("0.")]
    expected = {f"{k}.{name}": once[f"{k % 2}.{name}"] for k in range(4) for name in names}
    assert_same_gradients(twice, expected)
    assert twice["metric.dph/tokens"].tolist() == once["metric.dph/tokens"].tolist() * 2


def test_gradient_of_an_adapter_follows_from_its_layers_gradient(found):
    """A layer is W + alpha / r B A, and B is 0 at the start: the gradient of B is alpha / r times W's
    gradient times A's transpose."""
    lora, whole = found["lora"], found["joint"]
    gradients = {name: value for name, value in lora.items() if name[:2] in ("0.", "1.") and ".lora_B." in name}
    assert len(gradients) == 2 * 2 * 7  # mini-batches, layers, projections
    for name, gradient in gradients.items():
        k, parameter = name.split(".", 1)
        layer = parameter.removeprefix("base_model.model.").replace(".lora_B.default", "")
        a = lora["weight." + parameter.replace("lora_B", "lora_A")]
        torch.testing.assert_close(gradient, LORA_ALPHA / RANK * whole[f"{k}.{layer}"] @ a.T, rtol=1e-3, atol=1e-6)
