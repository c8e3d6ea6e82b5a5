"""Check a run and start nothing: `python -m verl.dph.check verl.dph.main [overrides]`; `dph doctor SCRIPT` shows it.

The checks are those that the program itself makes before it starts Ray, each on its own, so that one run of this names
everything that is wrong, and two of what a start finds out late: the tokenizer, and room for a checkpoint. Prints a
JSON object per check (rl/doctor/finding.py). Works for training, the D_pef store and pre-sampling.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from omegaconf import DictConfig
from verl.utils import hf_tokenizer
from verl.utils.fs import copy_to_local

from rl.common.cli import find_user_error
from rl.common.errors import UserError
from rl.data.rows import Row, read_rows
from rl.doctor.finding import Finding, fail, ok, skipped, warn
from verl.dph import main, presample
from verl.dph.config.program import run_main
from verl.dph.reward.preflight import OUR_REWARD, check_scorer
from verl.dph.reward.settings import scorer_settings
from verl.dph.training import disk
from verl.dph.training.config import rehearses
from verl.dph.training.model_checks import config_json

PROGRAMS = {"verl.dph.main": "dph_trainer", "verl.dph.presample": "presample"}
SCORER_WAIT_S = 5.0


def check(program: str, config: DictConfig) -> None:
    """Print the findings."""
    rows: list[Row] = []
    settings = _report("settings", partial(_settings, program, config))
    _report("data", partial(_data, program, config, rows))
    model = _report("model", partial(_model, config))
    if program == "verl.dph.main" and settings and model:
        _report("checkpoints", partial(_checkpoints, config))
        _report("store", partial(_store, config))
    _report("scorer", partial(_scorer, config, rows))
    if program == "verl.dph.main" and settings:
        _report("verl's checks", partial(_verl, config))


def _report(name: str, look: Callable[[], Finding]) -> bool:
    """Print what `look` finds. Returns whether the checks that build on it make sense."""
    try:
        finding = look()
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        finding = fail(find_user_error(error) or f"{type(error).__name__}: {lines[0]}")
    sys.stdout.write(json.dumps(finding.as_json(name)) + "\n")
    sys.stdout.flush()
    return finding.status != "fail"


def _settings(program: str, config: DictConfig) -> Finding:
    ranks = f"{config.trainer.nnodes} x {config.trainer.n_gpus_per_node} ranks on {config.trainer.device}"
    if program == "verl.dph.presample":
        settings = presample.check_settings(config)
        return ok(f"{settings.n} samples per prompt, {ranks}")
    main.check_settings(config)
    actor, data = config.actor_rollout_ref.actor, config.data
    if actor.generate_sft:
        return ok(f"write the D_pef store {data.sft_pt}, {ranks}")
    rollouts = f"{data.train_batch_size} prompts x {config.actor_rollout_ref.rollout.n} samples a step"
    return ok(f"sft_loss_mode={actor.sft_loss_mode}, {rollouts}, {ranks}")


def _data(program: str, config: DictConfig, rows: list[Row]) -> Finding:
    """Read the prompts into `rows`, each of them checked."""
    rows += read_rows(presample.train_files(config)) if program == "verl.dph.presample" else main.check_rows(config)
    return ok(f"{len({row.origin for row in rows}):,} prompts")  # without validation files verl gets training's twice


def _model(config: DictConfig) -> Finding:
    """Config, tokenizer and weights, without loading the weights."""
    model = config.actor_rollout_ref.model
    text = config_json(model).get_text_config()
    tokenizer = hf_tokenizer(
        copy_to_local(model.tokenizer_path or model.path), trust_remote_code=model.trust_remote_code
    )
    if not (model.custom_chat_template or tokenizer.chat_template):
        return fail(
            f"the tokenizer of {model.path} has no chat template, which prompts are made with",
            "give an instruction-tuned model, or set actor_rollout_ref.model.custom_chat_template.",
        )
    if len(tokenizer) > text.vocab_size:
        return fail(
            f"the tokenizer of {model.path} has {len(tokenizer)} tokens and its config.json a vocab_size of "
            f"{text.vocab_size}: they are of different models",
            "give a folder whose files belong together.",
        )
    found = f"{text.model_type}, {disk.parameters(config):,} parameters, {len(tokenizer)} tokens"
    if not _has_weights(str(model.path)):
        return warn(f"{found}; no weights at {model.path} yet", "the run downloads them from the Hugging Face Hub.")
    return ok(found)


def _has_weights(model: str) -> bool:
    """Whether they are in the folder, or in the cache of the Hub."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

        try:
            folder = Path(snapshot_download(model, local_files_only=True))
        except (HFValidationError, LocalEntryNotFoundError):
            return False
    elif not any(folder.glob("*.safetensors")) and not any(folder.glob("pytorch_model*.bin")):
        raise UserError(f"The model folder {folder} holds no weights: give a complete model folder.")
    return any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin"))


def _checkpoints(config: DictConfig) -> Finding:
    """Which one is resumed, and whether there is room for another."""
    resumed, finished = main.checkpoint_to_resume(config)
    if finished is not None:
        return ok(finished.splitlines()[0])
    begins = f"resumes from {resumed.name}" if resumed is not None else "starts at step 0"
    return ok(f"{begins}; {disk.check_room(config, resumed) or 'writes none'}")


def _store(config: DictConfig) -> Finding:
    if config.actor_rollout_ref.actor.generate_sft:
        main.check_given_rows(config)
        return ok(f"{config.data.sft_pt} can be written")
    if not rehearses(config):
        return skipped("this run reads none")
    if not _has_weights(str(config.actor_rollout_ref.model.path)):
        return skipped("the model's weights, with which it is compared, are not here yet")
    resumed, _ = main.checkpoint_to_resume(config)
    main.check_feed(config, resumed)
    return ok(f"{config.data.sft_pt} is of this model, tokenizer and temperature")


def _scorer(config: DictConfig, rows: Sequence[Row]) -> Finding:
    if config.reward.custom_reward_function.path != OUR_REWARD:
        return skipped(f"rewards come from {config.reward.custom_reward_function.path}")
    asyncio.run(check_scorer(config, rows, SCORER_WAIT_S))
    databases = len({row.question["db_id"] for row in rows if "db_id" in row.question})
    return ok(f"{scorer_settings(config)['scorer']} answers" + (f"; databases asked: {databases}" if databases else ""))


def _verl(config: DictConfig) -> Finding:
    main.check_with_verl(config)
    return ok("they accept the settings")


if __name__ == "__main__":
    if sys.argv[1:2] not in ([name] for name in PROGRAMS):
        sys.exit(f"usage: python -m verl.dph.check {{{','.join(PROGRAMS)}}} [KEY=VALUE ...]")
    run_main(partial(check, checked := sys.argv.pop(1)), PROGRAMS[checked])
