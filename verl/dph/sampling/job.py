"""Validate the settings of a samples file, then generate and score the samples that it lacks."""

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from transformers import AutoConfig, PreTrainedTokenizerBase
from verl.utils import hf_tokenizer
from verl.utils.fs import copy_to_local
from verl.utils.model import get_generation_config
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from rl.common.errors import UserError
from rl.common.fingerprint import file_sha256, model_hashes
from rl.configuration import CONFIG_DIR
from rl.data.rows import PromptFiles
from rl.data.sample_file import UNJUDGED, SampleMetadata, SampleWriter
from rl.scorer.client.scorer_client import ScorerClient
from verl.dph.config import attention
from verl.dph.hf_rollout.sampling import end_ids
from verl.dph.reward.settings import SCORER_WAIT_S, scorer_settings
from verl.dph.sampling.rollout_engine import replica_count
from verl.dph.sampling.sampler import SamplingSettings, sample

logger = logging.getLogger(__name__)
# It would log which of verl's token builders a model gets.
logging.getLogger("verl.utils.tokenizer.continuous_token_wiring").setLevel(logging.ERROR)


@dataclass(frozen=True)
class SamplingJob:
    """All inputs of a sampler run except the engine."""

    prompts: PromptFiles
    tokenizer: PreTrainedTokenizerBase
    stop_ids: frozenset[int]
    settings: SamplingSettings
    metadata: SampleMetadata
    output: Path
    scorer_settings: dict[str, Any]
    max_in_flight: int

    @property
    def total(self) -> int:
        return len(self.prompts) * self.settings.n

    def complete(self) -> bool:
        """Whether the file holds every sample.

        Raises:
            UserError: it holds another run's samples.
        """
        with SampleWriter(self.output, self.metadata) as writer:
            return len(writer.done) == self.total


def prepare(
    config: DictConfig,
    *,
    files: Sequence[str | Path],
    settings: SamplingSettings,
    output: Path,
    max_in_flight: int | None = None,
    unjudged: bool = False,
) -> SamplingJob:
    """Read rows, model files and settings.

    Args:
        config: verl's trainer settings; read are actor_rollout_ref.model and rollout, data.max_prompt_length,
            data.filter_overlong_prompts, data.apply_chat_template_kwargs and reward.custom_reward_function's
            reward_kwargs.
        files: parquet files in the row format.
        output: F.jsonl.
        max_in_flight: requests to the engine at a time; None: twice as many as the replicas batch.
        unjudged: whether the files may be without ground truth; their samples are then not scored.

    Raises:
        UserError: a file, row, model or setting cannot work, or a prompt is too long and data.filter_overlong_prompts
            does not leave it out.
    """
    model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
    hashes = model_hashes(model.path, model.tokenizer_path)
    tokenizer, prompts = tokenized_prompts(config, files, unjudged=unjudged)
    metadata = SampleMetadata(
        model=str(model.path),
        **hashes,
        temperature=float(settings.temperature),
        top_p=float(settings.top_p),
        top_k=int(settings.top_k),
        n=settings.n,
        seed=settings.seed,
        max_response_length=settings.max_response_length,
        data_files={str(file): file_sha256(file) for file in files},
        rows=len(prompts),
        overlong_ids=list(prompts.overlong),
        chat_template=chat_template(config),
        scorer="" if prompts.judged else UNJUDGED,
        engine=" ".join([rollout.name, rollout.dtype, *_changes(config, settings)]),
    )
    return SamplingJob(
        prompts=prompts,
        tokenizer=tokenizer,
        stop_ids=stop_ids(model, tokenizer),
        settings=settings,
        metadata=metadata,
        output=output,
        scorer_settings=scorer_settings(config) if prompts.judged else {},
        max_in_flight=max_in_flight or 2 * rollout.max_num_seqs * replica_count(config),
    )


def _changes(config: DictConfig, settings: SamplingSettings) -> list[str]:
    """Settings of the engine that change responses, or log-probs that are stored, where they are not the default."""
    model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
    longest = config.data.max_prompt_length + settings.max_response_length
    mode_is_other = rollout.logprobs_mode != "processed_logprobs"
    changed = {
        "quantization": rollout.get("quantization"),  # vLLM's, of the weights: another model
        "quantization_config_file": rollout.get("quantization_config_file"),
        "max_model_len": rollout.max_model_len if longest > (rollout.max_model_len or longest) else None,
        "logprobs_mode": rollout.logprobs_mode if settings.log_probs and mode_is_other else None,
        # A tokenizer is compared by content.
        "engine_kwargs": _without(rollout.engine_kwargs.get(rollout.name), "kv_cache_memory_bytes", "tokenizer"),
        "override_config": override_config(model),
    }
    return [f"{name}={json.dumps(value, sort_keys=True)}" for name, value in changed.items() if value]


def override_config(model: DictConfig) -> dict[str, Any]:
    """Changes to the model's config.json, without the attention, which is the engine's.

    Args:
        model: actor_rollout_ref.model.
    """
    return _without(model.override_config, attention.KEY)


def _without(settings: DictConfig | None, *keys: str) -> dict[str, Any]:
    found = OmegaConf.to_container(settings or OmegaConf.create({}), resolve=True)
    return {name: value for name, value in found.items() if name not in keys}


def tokenized_prompts(
    config: DictConfig, files: Sequence[str | Path], *, unjudged: bool = False
) -> tuple[PreTrainedTokenizerBase, PromptFiles]:
    """The model's tokenizer, and the prompts as verl's agent loop tokenizes them.

    Args:
        unjudged: whether the files may be without ground truth.

    Raises:
        UserError: see prepare.
    """
    tokenizer, builder = tokenizer_and_builder(config)
    prompts = PromptFiles(files, builder, config.data.max_prompt_length, unjudged=unjudged)
    _report_overlong(prompts, config.data)
    return tokenizer, prompts


def tokenizer_and_builder(config: DictConfig) -> tuple[PreTrainedTokenizerBase, Any]:
    """The model's tokenizer, and verl's builder of a prompt's tokens."""
    model = config.actor_rollout_ref.model
    tokenizer = tokenizer_of(model)
    if model.custom_chat_template is not None:
        tokenizer.chat_template = model.custom_chat_template
    model_type = AutoConfig.from_pretrained(
        copy_to_local(model.path), trust_remote_code=model.trust_remote_code
    ).model_type
    settings = _template_settings(config)
    return tokenizer, create_continuous_token_builder(
        tokenizer, hf_model_type=model_type, chat_template_kwargs=settings
    )


def warn_if_dated(tokenizer: PreTrainedTokenizerBase, file: str | Path) -> bool:
    """Whether the chat template writes today's date, so that texts in `file` are not compared; if so, warn of it."""
    template = str(tokenizer.chat_template)
    dated = "strftime_now" in template and "date_string" not in template  # prompts.yaml gives it one
    if dated:
        logger.warning(
            "The chat template writes the date, so that a prompt has another text every day: whether %s is of this "
            "run's prompts is known by their ids alone.",
            file,
        )
    return dated


def chat_template(config: DictConfig) -> str:
    """Settings besides the tokenizer's own template that change prompts, as JSON; "{}" for none."""
    custom = config.actor_rollout_ref.model.get("custom_chat_template")
    template = {"sha256": hashlib.sha256(custom.encode()).hexdigest()[:12]} if custom else {}
    return json.dumps(own_template_settings(config) | template, sort_keys=True)


def own_template_settings(config: DictConfig) -> dict[str, Any]:
    """data.apply_chat_template_kwargs without what every run has (verl/dph/config/prompts.yaml)."""
    shared = OmegaConf.load(CONFIG_DIR / "prompts.yaml").apply_chat_template_kwargs
    return {name: value for name, value in _template_settings(config).items() if shared.get(name) != value}


def _template_settings(config: DictConfig) -> dict[str, Any]:
    return OmegaConf.to_container(config.data.get("apply_chat_template_kwargs") or OmegaConf.create({}))


async def draw(job: SamplingJob, engine: Callable[[], AbstractAsyncContextManager[Any]]) -> int:
    """Generate and score the samples missing from the job's file.

    A complete file needs neither scorer nor engine; one in which only scores are missing needs no engine.

    Args:
        engine: opens a context that yields a client with verl's `generate`.

    Returns:
        How many samples were drawn now.

    Raises:
        UserError: the scorer judges otherwise than when it judged the file's samples; or several scorers judge
            differently.
        ScorerUnavailable: no scorer responds, at the start or later; samples written so far stay, for the next run.
    """
    with SampleWriter(job.output, job.metadata) as writer:
        if len(writer.done) == job.total:
            logger.info("%s is complete.", job.output)
            return 0
        all_drawn = len(writer.done) + len(writer.waiting) == job.total
        asked = ScorerClient(**job.scorer_settings, digests=True) if job.prompts.judged else contextlib.nullcontext()
        async with asked as scorer:
            if scorer is not None:
                await scorer.wait_until_healthy(SCORER_WAIT_S)
                writer.judged_by(await scorer.verdict_sha256())
            async with contextlib.nullcontext() if all_drawn else engine() as client:
                return await sample(
                    client,
                    job.tokenizer,
                    job.prompts,
                    settings=job.settings,
                    stop_ids=job.stop_ids,
                    scorer=scorer,
                    writer=writer,
                    max_in_flight=job.max_in_flight,
                )


def tokenizer_of(model: DictConfig) -> PreTrainedTokenizerBase:
    """The tokenizer of actor_rollout_ref.model.

    Raises:
        UserError: its files are missing or damaged.
    """
    path = model.tokenizer_path or model.path
    try:
        return hf_tokenizer(copy_to_local(path), trust_remote_code=model.trust_remote_code)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(":.")
        raise UserError(
            f"The tokenizer of {path} cannot be loaded ({reason}): give a folder with the tokenizer's files, or name "
            "one in actor_rollout_ref.model.tokenizer_path."
        ) from error


def stop_ids(model: DictConfig, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Ids at which the engine ends a response."""
    return end_ids(
        tokenizer, get_generation_config(copy_to_local(model.path), trust_remote_code=model.trust_remote_code)
    )


def _report_overlong(prompts: PromptFiles, data: DictConfig) -> None:
    if not prompts.overlong:
        return
    longest, tokens = max(prompts.overlong.items(), key=lambda item: item[1])
    found = (
        f"{len(prompts.overlong)} of {prompts.rows} prompts are longer than "
        f"data.max_prompt_length={data.max_prompt_length} tokens (the longest is id {longest} with {tokens})"
    )
    if not data.filter_overlong_prompts:
        raise UserError(f"{found}: raise it, or set data.filter_overlong_prompts=True to leave them out.")
    if not len(prompts):
        raise UserError(f"{found}, so none is left: raise it.")
    logger.warning("%s and are left out.", found)
