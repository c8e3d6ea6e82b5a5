"""What training refuses before Ray starts: one sentence that names the setting, file or row, and exit code 2."""

import os
import subprocess
import sys

import pandas as pd
import pytest
import torch
from hydra import compose, initialize_config_dir

from rl.common.errors import UserError
from rl.common.fingerprint import model_hash, tokenizer_hash
from verl.dph import main
from verl.dph.config.program import CONFIG_DIR
from verl.dph.divergence import topk_logprobs
from verl.dph.pef.store import Row, Store
from verl.dph.training import model_checks

ACTOR, MODEL = "actor_rollout_ref.actor.", "actor_rollout_ref.model."


def dataset_row(i, **changes):
    truth = {"db_id": "shop/shop.sqlite", "gold_sql": "SELECT name FROM item", "cmp_method": "bird"}
    row = {
        "data_source": "sql",
        "prompt": [{"role": "user", "content": f"w{i}"}],
        "reward_model": {"style": "rule", "ground_truth": truth},
        "id": i,
    }
    return row | changes


@pytest.fixture
def run(random_model, scorer_server, tmp_path, monkeypatch):
    """A run that would start, as overrides by name; `prepare(**changes)` checks it with some of them changed."""
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    data = tmp_path / "data.parquet"
    pd.DataFrame([dataset_row(i) for i in range(8)]).to_parquet(data)
    store = tmp_path / "pef.pt"
    origin = {
        "model": random_model,
        "model_hash": model_hash(random_model),
        "tokenizer_hash": tokenizer_hash(random_model),
        "temperature": 1.0,
    }
    rows = [Row(i, torch.tensor([3, 4]), torch.tensor([5, 1]), torch.tensor([-1.0, -2.0])) for i in range(8)]
    Store(origin, rows).save(str(store))
    settings = {
        "device": "cpu",
        "actor_rollout_ref.model.path": random_model,
        "data.train_files": data,
        "data.val_files": data,
        "data.sft_files": data,
        "data.sft_pt": store,
        "data.sft_batch_size": 8,
        "data.train_batch_size": 8,
        f"{ACTOR}ppo_mini_batch_size": 4,
        f"{ACTOR}use_dynamic_bsz": True,
        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz": True,
        "actor_rollout_ref.rollout.n": 4,
        f"{ACTOR}sft_loss_mode": "js_low_var",
        "algorithm.adv_estimator": "grpo",
        "reward.custom_reward_function.reward_kwargs.scorer": scorer_server,
    }

    class Run:
        folder, files, model, overrides = tmp_path, {"data": data, "store": store}, random_model, settings
        store_origin, store_rows = origin, rows

        @staticmethod
        def prepare(**changes):
            values = settings | {name.replace("__", "."): value for name, value in changes.items()}
            with initialize_config_dir(str(CONFIG_DIR), version_base=None):
                config = compose("dph_trainer", [f"{name}={value}" for name, value in values.items()])
            main.prepare(config)
            return config

    return Run


def test_a_run_that_can_start_passes(run):
    config = run.prepare()
    assert config.actor_rollout_ref.actor.sft_loss_mode == "js_low_var"


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        (f"{ACTOR}sft_loss_mode", "jss", "sft_loss_mode='jss' is unknown: use one of none, forward, js, js_low_var"),
        (f"{ACTOR}sft_loss_mode", "reverse_kl", "sft_loss_mode=reverse_kl compares the policy's own samples"),
        (f"{ACTOR}sft_loss_mode", "js", "needs a reference model: set actor.use_kl_loss=True"),
        (f"{ACTOR}sft_loss_form", "exact", "sft_loss_form='exact' is unknown: use one of auto, generator, policy"),
        (f"{ACTOR}sft_loss_form", "policy", "js_low_var with sft_loss_form=policy compares the policy's own samples"),
        (f"{ACTOR}sft_loss_estimator", "top-k", "sft_loss_estimator='top-k' is unknown: use one of sampled, topk"),
        (f"{ACTOR}sft_loss_estimator", "topk", "pef.pt holds no next-token distributions"),
        (f"{ACTOR}sft_grad_norm_freq", -1, "sft_grad_norm_freq=-1 is negative"),
        (f"{ACTOR}sft_loss_normalization", "both", "sft_loss_normalization='both' is unknown"),
        (f"{ACTOR}sft_kl_estimator", "k2", "sft_kl_estimator='k2' is unknown"),
        (f"{ACTOR}sft_loss_coeff", -0.1, "sft_loss_coeff=-0.1 is negative"),
        (f"{ACTOR}sft_loss_control.type", "linear", "sft_loss_control.type='linear' is unknown"),
        (f"{ACTOR}sft_loss_control.warmup_steps", 5, "warmup_steps=5 must be 0 with type=constant"),
        ("trainer.keep_probe.prompts", 4, "data.parquet has no column base_correct"),
        (f"{ACTOR}loss_agg_mode", "seq-mean-token-sum", "loss_agg_mode=seq-mean-token-sum does not go with"),
        ("data.sft_batch_size", 7, "sft_batch_size=7 does not divide over 2 mini-batches x 1 data-parallel ranks"),
        ("data.sft_batch_size", 16, "holds 8 rows, but data.sft_batch_size=16"),
        ("data.sft_pt", "null", "data.sft_pt is not set"),
        ("data.sft_pt", "/nowhere/pef.pt", "get_correct_data_tensor.sh (scripts/llama, scripts/qwen), which writes it"),
        ("data.train_files", "/nowhere/a.parquet", "data.train_files=/nowhere/a.parquet does not exist"),
        ("actor_rollout_ref.model.path", "/nowhere/model", "/nowhere/model holds no config.json"),
        ("actor_rollout_ref.rollout.temperature", 0.6, "made with another temperature"),
        ("trainer.n_gpus_per_node", 8, "8 ranks (trainer.nnodes x trainer.n_gpus_per_node"),
        ("trainer.device", "cuda", "trainer.device=cuda does not go with VERL_PLATFORM='cpu'"),
        (f"{ACTOR}strategy", "fsdp", "actor.strategy=fsdp does not run with trainer.device=cpu"),
        ("algorithm.adv_estimator", "gae", "critic.model.path=~/models/deepseek-llm-7b-chat holds no config.json"),
        (f"{MODEL}lora_rank", 8, "lora_rank=8 does not go with the hf rollout"),
        (f"{MODEL}lora.rank", 8, "lora.rank=8 makes no adapter with FSDP, which goes by lora_rank"),
        (f"{MODEL}lora_adapter_path", "/a/b", "lora_adapter_path=/a/b makes no adapter"),
    ],
)
def test_a_wrong_setting_is_named(run, setting, value, sentence):
    with pytest.raises(UserError) as error:
        run.prepare(**{setting.replace(".", "__"): value})
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def changed(changes):
    return {name.replace(".", "__"): value for name, value in changes.items()}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "actor.ulysses_sequence_parallel_size=2 does not divide the trainer's 1 ranks"),
        (
            {"trainer.n_gpus_per_node": 2},
            "cuts packed sequences into pieces: set actor_rollout_ref.model.use_remove_padding",
        ),
        (
            {"trainer.n_gpus_per_node": 2, f"{MODEL}use_remove_padding": True},
            "attn_implementation=sdpa every rank would see its own piece of a sequence only",
        ),
    ],
)
@pytest.mark.parametrize("name", ["ulysses_sequence_parallel_size", "fsdp_config.ulysses_sequence_parallel_size"])
def test_ulysses_is_refused_where_it_would_compute_something_else(run, name, changes, sentence):
    with pytest.raises(UserError) as error:
        run.prepare(**changed({f"{ACTOR}{name}": 2} | changes))
    assert sentence in str(error.value) and "\n" not in str(error.value)


def test_ulysses_ranks_share_their_rows(run):
    """4 ranks in groups of 2 are 2 data-parallel ranks, each with 2 of the 4 D_pef rows of a mini-batch."""
    settings = {f"{ACTOR}ulysses_sequence_parallel_size": 2, "trainer.n_gpus_per_node": 4} | {
        f"{MODEL}use_remove_padding": True,
        f"{MODEL}override_config.attn_implementation": "flash_attention_2",
    }
    run.prepare(**changed(settings))
    with pytest.raises(UserError, match="6 does not divide over 2 mini-batches x 2 data-parallel ranks"):
        run.prepare(**changed(settings | {"data.sft_batch_size": 6}))


LORA = {f"{MODEL}lora_rank": 8, f"{MODEL}lora.merge": True}


def test_the_reference_of_a_lora_run_is_no_model_of_its_own(run):
    run.prepare(**of_mode("js", reference=True), **changed(LORA | {"actor_rollout_ref.ref.strategy": "fsdp"}))
    with pytest.raises(UserError, match="ref.strategy=fsdp does not run with trainer.device=cpu"):
        run.prepare(**of_mode("js", reference=True), actor_rollout_ref__ref__strategy="fsdp")


def test_fsdp1_is_for_gpus(run):
    config = run.prepare()
    config.actor_rollout_ref.actor.strategy, config.trainer.device = "fsdp", "cuda"
    model_checks.check(config)


def test_flash_attention_is_missed_before_the_workers_start(run, monkeypatch):
    config = run.prepare()
    config.trainer.device = "cuda"
    config.actor_rollout_ref.model.override_config = {}  # verl's default
    monkeypatch.setattr(model_checks, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="uses flash_attention_2, verl's default, and the package flash-attn is not"):
        model_checks.check(config)
    config.actor_rollout_ref.model.override_config = {"attn_implementation": "sdpa"}
    model_checks.check(config)
    monkeypatch.setattr(model_checks, "find_spec", lambda name: name == "flash_attn" or None)
    config.actor_rollout_ref.model.override_config = {}
    model_checks.check(config)


def test_unmerged_weights_are_not_saved_as_a_model(run):
    with pytest.raises(UserError, match="save_contents has hf_model, which with .*lora_rank=8"):
        run.prepare(**changed(LORA | {f"{ACTOR}checkpoint.save_contents": "[model,hf_model]"}))


def test_the_critics_settings_are_checked(run):
    changes = {"algorithm.adv_estimator": "gae", "critic.model.path": run.model}
    run.prepare(**changed(changes))
    with pytest.raises(UserError, match="critic.strategy=fsdp does not run with trainer.device=cpu"):
        run.prepare(**changed(changes | {"critic.strategy": "fsdp"}))


def test_a_store_is_written_with_the_initial_policy_and_whole_sequences(run):
    writes = {f"{ACTOR}generate_sft": True, f"{ACTOR}sft_loss_mode": "none", "data.sft_wrong_files": run.files["data"]}
    with pytest.raises(UserError, match="lora_adapter_path=/a/b would change it"):
        run.prepare(**changed(writes | LORA | {f"{MODEL}lora_adapter_path": "/a/b"}))
    ulysses = {f"{ACTOR}ulysses_sequence_parallel_size": 2, "trainer.n_gpus_per_node": 2} | {
        f"{MODEL}use_remove_padding": True,
        f"{MODEL}override_config.attn_implementation": "flash_attention_2",
    }
    with pytest.raises(UserError, match="data.sft_top_k=16 is taken from whole sequences"):
        run.prepare(**changed(writes | ulysses | {"data.sft_top_k": 16}))


@pytest.mark.parametrize(
    ("k", "sentence"),
    [(4, "data.sft_top_k=4 must be 0 (none) or 8 to 128."), (100, "data.sft_top_k=100 is more than the 64 tokens of")],
)
def test_next_tokens_that_cannot_be_stored_are_refused(run, k, sentence):
    writes = {f"{ACTOR}generate_sft": True, f"{ACTOR}sft_loss_mode": "none", "data.sft_wrong_files": run.files["data"]}
    changes = {name.replace(".", "__"): value for name, value in writes.items()}
    run.prepare(**changes, data__sft_top_k=64)
    with pytest.raises(UserError) as error:
        run.prepare(**changes, data__sft_top_k=k)
    assert sentence in str(error.value)


def test_alpha_must_lie_between_the_two_kl_divergences(run):
    changes = {f"{ACTOR}sft_loss_mode".replace(".", "__"): "alpha"}
    run.prepare(**changes)
    with pytest.raises(UserError, match="alpha_coeff=1.0 must lie strictly between 0 and 1"):
        run.prepare(**changes, **{f"{ACTOR}alpha_coeff".replace(".", "__"): 1.0})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"mode": "reverse_kl", "reference": True}, "has no term on D_pef, but data.sft_files="),
        ({"mode": "js", "store": False, "reference": True}, "data.sft_files is not set"),
        ({"mode": "alpha", "store": False}, "set actor.use_kl_loss=True (or name the D_pef store in data.sft_pt)"),
        ({"mode": "reverse_kl", "store": False, "reference": True, "estimator": "topk"}, "topk compares stored"),
    ],
)
def test_a_mode_without_what_it_needs_is_refused(run, changes, sentence):
    with pytest.raises(UserError) as error:
        run.prepare(**of_mode(**changes))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "js", "reference": True},
        {"mode": "reverse_kl", "store": False, "reference": True},
        {"mode": "reverse_kl", "form": "generator"},
        {"mode": "alpha", "store": False, "reference": True},
        {"mode": "forward", "store": False, "reference": True, "form": "policy"},
        {"mode": "hellinger"},
        {"mode": "chi_square"},
    ],
)
def test_a_mode_with_what_it_needs_is_accepted(run, changes):
    run.prepare(**of_mode(**changes))


def test_none_as_the_papers_readme_writes_it_is_null(run):
    run.prepare(**of_mode("reverse_kl", reference=True), data__sft_files="None", data__sft_pt="None")


def of_mode(mode, store=True, reference=False, estimator="sampled", form="auto"):
    found = {"sft_loss_mode": mode, "use_kl_loss": reference, "sft_loss_estimator": estimator, "sft_loss_form": form}
    found = {(ACTOR + name).replace(".", "__"): value for name, value in found.items()}
    return found | ({} if store else {"data__sft_files": "null", "data__sft_pt": "null"})


def test_topk_needs_the_logits(run):
    store = [Row(r.id, r.prompt, r.response, r.ref_log_probs, *distributions(r)) for r in run.store_rows]
    Store(run.store_origin, store).save(str(run.files["store"]))
    changes = of_mode("js_low_var", estimator="topk")
    run.prepare(**changes)
    with pytest.raises(UserError, match="use_fused_kernels=True does not go with actor.sft_loss_estimator=topk"):
        run.prepare(**changes, actor_rollout_ref__model__use_fused_kernels=True)


def distributions(row):
    logits = torch.arange(64.0).expand(len(row.response), 64)
    return topk_logprobs.largest(logits, 8)


def test_a_kl_budget_needs_rows_on_which_to_measure_the_kl(run):
    control = f"{ACTOR}sft_loss_control.".replace(".", "__")
    budget = {f"{control}type": "target_kl", f"{control}target_kl": 0.05}
    run.prepare(**budget)
    with pytest.raises(UserError, match="target_kl follows the KL on D_pef rows, which sft_loss_mode=none does not"):
        run.prepare(**budget, **{f"{ACTOR}sft_loss_mode".replace(".", "__"): "none"})


@pytest.mark.parametrize("name", ["model_hash", "tokenizer_hash"])
def test_a_store_of_another_model_is_refused(run, name):
    Store(run.store_origin | {name: "0" * 64}, run.store_rows).save(str(run.files["store"]))
    with pytest.raises(UserError, match=f"another {name.removesuffix('_hash')}"):
        run.prepare()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"prompt": "no list"}, "data.parquet row 3: prompt"),
        ({"reward_model": {"style": "rule", "ground_truth": {"db_id": "shop/shop.sqlite"}}}, "data.parquet row 3"),
        ({"data_source": "poetry"}, "data.parquet row 3: There is no reward for data_source 'poetry'"),
        ({"id": 0}, "id 0 is also in"),
    ],
)
def test_a_malformed_row_is_named(run, changes, sentence):
    rows = [dataset_row(i) for i in range(8)]
    rows[3] |= changes
    if isinstance(changes.get("prompt"), str):
        rows = [row | {"prompt": changes["prompt"]} if i >= 3 else row for i, row in enumerate(rows)]
        rows = rows[3:]
        sentence = "data.parquet row 0: prompt"
    pd.DataFrame(rows).to_parquet(run.files["data"])
    with pytest.raises(UserError) as error:
        run.prepare()
    assert sentence in str(error.value)


def test_a_database_that_the_scorer_lacks_is_named_before_training(run):
    truth = {"db_id": "zoo/zoo.sqlite", "gold_sql": "SELECT 1", "cmp_method": "bird"}
    rows = [dataset_row(i) for i in range(7)] + [dataset_row(7, reward_model={"style": "rule", "ground_truth": truth})]
    pd.DataFrame(rows).to_parquet(run.files["data"])
    with pytest.raises(UserError, match="data.parquet row 7: .*zoo/zoo.sqlite"):
        run.prepare()


def test_a_scorer_that_is_down_is_named_before_training(run, monkeypatch):
    monkeypatch.setattr("verl.dph.training.preflight.SCORER_WAIT_S", 0.2)
    with pytest.raises(UserError, match="127.0.0.1:9.*scorer_server_without_ray.py"):
        run.prepare(reward__custom_reward_function__reward_kwargs__scorer="http://127.0.0.1:9")


def test_an_unregistered_plugin_is_refused(run, monkeypatch):
    monkeypatch.setattr("verl.dph.plugin.registered", False)
    with pytest.raises(UserError, match="verl.plugins"):
        run.prepare()


def test_the_program_ends_with_the_sentence_and_code_2(run):
    """Through the real command line; nothing is started, so nothing can be left."""
    overrides = [f"{name}={value}" for name, value in (run.overrides | {f"{ACTOR}sft_loss_mode": "jss"}).items()]
    finished = subprocess.run(
        [sys.executable, "-m", "verl.dph.main", *overrides],
        env=os.environ | {"VERL_PLATFORM": "cpu"},
        cwd=run.folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 2
    assert finished.stderr.strip().splitlines()[-1].startswith("Error: actor.sft_loss_mode='jss' is unknown")
    assert "Traceback" not in finished.stderr
