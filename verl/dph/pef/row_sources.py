"""Store rows that need no sampling: correct samples of the pre-sampling, or responses from elsewhere.

build.py draws the refinement's samples, which the paper stores.
"""

import asyncio
import hashlib
import logging
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain
from pathlib import Path

import torch
from omegaconf import DictConfig
from transformers import PreTrainedTokenizerBase

from rl.checks.files import files_of, prompt_settings, uses_samples
from rl.common.errors import UserError
from rl.common.fingerprint import file_sha256
from rl.common.text import number_of
from rl.data.response_file import GivenResponse, prompt_names, read_responses
from rl.data.rows import Prompt, PromptFiles, ids_of, rows_with
from rl.data.sample_file import UNJUDGED, read_metadata, read_samples
from rl.scorer.client.protocol import Score
from rl.scorer.client.scorer_client import ScorerClient
from verl.dph.pef import refinement
from verl.dph.pef.origin import origin_of
from verl.dph.pef.store import DELETE, Row, Store
from verl.dph.reward.settings import SCORER_WAIT_S, scorer_settings
from verl.dph.sampling.job import stop_ids, tokenized_prompts, tokenizer_and_builder, warn_if_dated

logger = logging.getLogger(__name__)

# Responses sent to the scorer at a time.
SCORED_AT_ONCE = 1024
# Reasons why a given response has no row; the store's `meta` counts each.
DROPPED = ("unknown_prompt", "ambiguous_prompt", "special_tokens", "too_long", "not_correct", "over_limit")

# What to do if data.sft_pt is another run's store.
REPLACE = f"name another file in data.sft_pt (SFT_PT in the scripts), or {DELETE}"

# A prompt, its row, and where the response comes from.
Candidate = tuple[Prompt, Row, str | None]


def source_of(data: DictConfig) -> dict[str, str | int | float]:
    """What decides which rows are given, for the store's `meta`; empty for the refinement's samples."""
    source: dict[str, str | int | float]
    if data.sft_responses:
        source = {"responses": file_sha256(Path(data.sft_responses).expanduser())}
        source |= {"verified": bool(data.sft_verify_responses), "max_response_length": int(data.max_response_length)}
    elif uses_samples(data):
        source = {"samples": file_sha256(Path(data.sft_samples).expanduser()), "coverage": str(data.sft_coverage)}
    else:
        return {}
    ids = " ".join(sorted(map(str, ids_of(_prompt_files(data)))))
    return source | {
        "responses_per_prompt": str(data.sft_responses_per_prompt),
        "max_prompt_length": int(data.max_prompt_length),
        "prompt_ids": hashlib.sha256(ids.encode()).hexdigest(),
    }


def check_source(store: Store, path: Path, source: dict[str, str | int | float]) -> None:
    """Reject a store whose rows come from another source than this run's, instead of replacing it."""
    # Not max_response_length, which the origin of every store has.
    names = ("responses", "verified", "samples", "coverage", "responses_per_prompt", "max_prompt_length", "prompt_ids")
    recorded = {name: store.meta[name] for name in dict.fromkeys((*source, *names)) if name in store.meta}
    if recorded != source:
        raise UserError(
            f"D_pef store {path} records {_words(recorded)}, and this run would write {_words(source)}: {REPLACE}."
        )


def check_texts(store: Store, path: str, config: DictConfig, files: Sequence[Path]) -> None:
    """Reject a store whose prompts have another text now in the run's files.

    Args:
        files: of prompts; the first that has an id decides.
    """
    stored = {row.id: row.prompt for row in store.rows}
    tokenizer, builder = tokenizer_and_builder(config)
    if warn_if_dated(tokenizer, path):
        return
    for row in rows_with(stored, files):
        if list(Prompt(row, builder).token_ids) != stored.pop(row.id).tolist():
            raise UserError(
                f"D_pef store {path} has another prompt with id {row.id} than {row.origin}: if the prompts were "
                f"prepared again, sample and split them again, and write the store again ({DELETE} first)."
            )


def check_rows_to_write(config: DictConfig) -> None:
    """Reject, before Ray starts, files that give no store, and another run's store or samples under this run's name."""
    data, path = config.data, Path(config.data.sft_pt).expanduser()
    source = source_of(data)
    store = Store.load(str(path)) if path.exists() else None
    if store is not None:
        origin = origin_of(config)
        check_source(store, path, source)
        store.check_origin(path, origin, REPLACE)
        check_texts(store, str(path), config, _prompt_files(data))
        if not source:
            _check_drawn(store, path, origin)
    if not source:
        [correct] = files_of(data.sft_files)
        if store is None or not refinement.is_complete(store, correct):
            refinement.check(config)
    elif store is None and data.sft_responses:
        tokenizer, prompts = tokenized_prompts(config, _prompt_files(data))
        dropped = Counter[str]()
        if not any(True for _ in _candidates(config, tokenizer, prompts, dropped)):
            raise UserError(f"{data.sft_responses} gives the store no row ({_counts(dropped)}): check the file.")
    elif store is None:
        _presampled(config)


def _check_drawn(store: Store, path: Path, origin: dict[str, str | int | float]) -> None:
    """Reject a store whose samples were drawn in another way; log-probs (`check_origin`) do not depend on these."""
    for name in ("top_p", "rollout_top_k", "seed", "max_response_length"):
        if store.meta.get(name, origin[name]) != origin[name]:
            raise UserError(
                f"D_pef store {path} holds samples drawn with {name}={store.meta[name]}, and this run has "
                f"{origin[name]}: {REPLACE}."
            )


def given_rows(config: DictConfig) -> Store:
    """The rows of data.sft_samples or data.sft_responses, without reference log-probs.

    Raises:
        UserError: the files are not this run's, no row is left, or the scorer is unreachable.
    """
    store = _foreign(config) if config.data.sft_responses else _presampled(config)
    if not store.rows:
        given = config.data.sft_responses or config.data.sft_samples
        raise UserError(f"{given} gives the store no row ({_counts(store.meta)}): check the file and the scorer.")
    logger.info("%s: %s", config.data.sft_pt, _counts(store.meta))
    return store


def _presampled(config: DictConfig) -> Store:
    """The correct samples of each prompt that were not cut off, in the order of their numbers; with
    data.sft_coverage=all the wrong and the unjudged ones, too."""
    path = Path(config.data.sft_samples).expanduser()
    metadata, origin = read_metadata(path), origin_of(config)
    wanted = {name: origin[name] for name in ("model_hash", "tokenizer_hash", "config_hash", "temperature", "top_p")}
    for name, value in (wanted | {"top_k": origin["rollout_top_k"]}).items():
        drawn_with = getattr(metadata, name)
        if drawn_with != value:
            raise UserError(
                f"{path} holds samples drawn with {name}={drawn_with}, and this run has {value}: give the "
                "pre-sampling of this run in data.sft_samples."
            )
    if config.data.sft_coverage != "all" and metadata.scorer == UNJUDGED:
        raise UserError(f"{path} holds samples without verdicts: store all of them with data.sft_coverage=all.")
    kept: defaultdict[int, dict[int, torch.Tensor]] = defaultdict(dict)
    inputs: dict[int, int] = {}  # hashes: a prompt may have 60 KB
    sampled = set(metadata.overlong_ids)
    drawn = truncated = 0
    for record in read_samples(path):
        drawn += 1
        sampled.add(record.id)
        if config.data.sft_coverage != "all" and record.acc != 1:
            continue
        if record.truncated:
            truncated += 1
        else:
            kept[record.id][record.sample] = _int32(record.response_ids)
            inputs[record.id] = hash(record.input)
    if drawn != metadata.rows * metadata.n:
        raise UserError(
            f"{path} holds {drawn} of {metadata.rows * metadata.n} samples: re-run dph presample to resume."
        )
    _check_prompts(config.data, path, sampled, kept.keys())
    unjudged = config.data.sft_coverage == "all"
    tokenizer, prompts = tokenized_prompts(config, _prompt_files(config.data), unjudged=unjudged)
    rows: list[Row] = []
    stored, dated = [prompt for prompt in prompts if prompt.id in kept], warn_if_dated(tokenizer, path)
    # In the order of D_pef, then D_exp, which the prompts that failed their refinement join.
    failed = set().union(*map(refinement.failed_ids, files_of(config.data.sft_files)))
    stored.sort(key=lambda prompt: prompt.id in failed)
    for prompt in stored:
        if not dated and hash(tokenizer.decode(prompt.token_ids.tolist())) != inputs[prompt.id]:
            raise UserError(
                f"{path} has samples of another prompt with id {prompt.id} than {prompt.row.origin}, or of another "
                "chat template: give the pre-sampling of these prompts in data.sft_samples."
            )
        token_ids, samples = _int32(prompt.token_ids), kept[prompt.id]
        rows += [Row(prompt.id, token_ids, samples[number], None) for number in sorted(samples)[: _limit(config.data)]]
    counts = {"prompts": len(prompts), "kept": len(stored), "dropped_truncated": truncated}
    return Store(counts | {"scorer": metadata.scorer}, rows)


def _check_prompts(data: DictConfig, path: Path, sampled: Set[int], solved: Set[int]) -> None:
    """Reject prompts that were not sampled, and files that lack prompts that a sample solved.

    Args:
        path: the samples' file.
        sampled: ids of its prompts, also of those that were too long.
        solved: ids of the prompts with a row.
    """
    files = _prompt_files(data)
    named, ids = " and ".join(map(str, files)), ids_of(files)
    if unknown := ids - sampled:
        raise UserError(
            f"{path} has no samples of {number_of(len(unknown), 'prompt')} in {named} (the first has id "
            f"{min(unknown)}): give the pre-sampling of these prompts in data.sft_samples."
        )
    # D_pef alone has the rows of data.sft_coverage=mastered.
    if data.sft_coverage == "solved" and (lacking := solved - ids):
        raise UserError(
            f"{path} has correct samples of {number_of(len(lacking), 'prompt')} outside {named} (the first has id "
            f"{min(lacking)}), and data.sft_coverage=solved stores all of them: give both parts of the split in "
            "data.sft_files and data.sft_wrong_files, or all prompts in data.sft_files."
        )


def _foreign(config: DictConfig) -> Store:
    """The given responses as token ids with an end token; only correct ones with data.sft_verify_responses."""
    data, dropped = config.data, Counter({f"dropped_{reason}": 0 for reason in DROPPED})
    tokenizer, prompts = tokenized_prompts(config, _prompt_files(data))
    candidates = list(_candidates(config, tokenizer, prompts, dropped))
    if data.sft_verify_responses:
        scores = asyncio.run(_scores(config, tokenizer, candidates))
        dropped["dropped_not_correct"] = sum(not score.acc for score in scores)
        candidates = [candidate for candidate, score in zip(candidates, scores, strict=True) if score.acc]
    rows: list[Row] = []
    sources, of_prompt = Counter[str](), Counter[int | str]()
    for _, row, source in candidates:
        of_prompt[row.id] += 1
        if of_prompt[row.id] > _limit(data):
            dropped["dropped_over_limit"] += 1
        else:
            rows.append(row)
            sources[source or "unnamed"] += 1
    words = ", ".join(f"{source}: {count}" for source, count in sources.items())
    return Store({"prompts": len(prompts), "kept": len(of_prompt), "sources": words, **dropped}, rows)


def _candidates(
    config: DictConfig, tokenizer: PreTrainedTokenizerBase, prompts: PromptFiles, dropped: Counter[str]
) -> Iterator[Candidate]:
    """The responses that can be a row, in the file's order; `dropped` counts the others."""
    given: defaultdict[int | str, list[tuple[int, GivenResponse]]] = defaultdict(list)
    for position, response in enumerate(read_responses(Path(config.data.sft_responses).expanduser())):
        given[response.prompt].append((position, response))
    named = Counter(name for prompt in prompts for name in set(prompt_names(prompt.row)) if name in given)
    for key, responses in given.items():
        if named[key] != 1:
            dropped["dropped_ambiguous_prompt" if named[key] else "dropped_unknown_prompt"] += len(responses)
    ends = stop_ids(config.actor_rollout_ref.model, tokenizer)
    for prompt in prompts:
        names = [name for name in {*prompt_names(prompt.row)} if named[name] == 1]
        for _, response in sorted(chain.from_iterable(given[name] for name in names)):
            ids = tokenizer.encode(response.response, add_special_tokens=False)
            ids += [] if ids[-1:] and ids[-1] in ends else [tokenizer.eos_token_id]
            if not ends.isdisjoint(ids[:-1]):
                dropped["dropped_special_tokens"] += 1
            elif len(ids) > config.data.max_response_length:
                dropped["dropped_too_long"] += 1
            else:
                yield prompt, Row(prompt.id, _int32(prompt.token_ids), _int32(ids), None), response.source


async def _scores(config: DictConfig, tokenizer: PreTrainedTokenizerBase, candidates: list[Candidate]) -> list[Score]:
    """The scores of the texts that the stored tokens decode to."""
    at_once = asyncio.Semaphore(SCORED_AT_ONCE)

    async def score(prompt: Prompt, row: Row) -> Score:
        async with at_once:
            text = tokenizer.decode(row.response.tolist(), skip_special_tokens=True)
            return await scorer.score(text, prompt.row.question)

    async with ScorerClient(**scorer_settings(config)) as scorer:
        await scorer.wait_until_healthy(SCORER_WAIT_S)
        return await asyncio.gather(*(score(prompt, row) for prompt, row, _ in candidates))


def _limit(data: DictConfig) -> int:
    """Responses per prompt."""
    return sys.maxsize if data.sft_responses_per_prompt == "all" else data.sft_responses_per_prompt


def _int32(token_ids: Sequence[int]) -> torch.Tensor:
    return torch.tensor(token_ids, dtype=torch.int32)


def _prompt_files(data: DictConfig) -> list[Path]:
    return [file for name in prompt_settings(data) for file in files_of(data[name])]


def _words(source: dict) -> str:
    if not source:
        return "one new sample of each near-perfect prompt"
    return ", ".join(f"{name}={str(value)[:12]}" for name, value in source.items())


def _counts(meta: Mapping) -> str:
    return ", ".join(f"{name}={value}" for name, value in meta.items() if isinstance(value, int))
