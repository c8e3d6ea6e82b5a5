"""Sample every prompt n times and score the responses concurrently; each record is appended as soon as it is scored.

Resumable per sample: recorded samples are not sampled again, and responses that wait for their score are not generated
again. The seed of a sample depends only on the run's seed, the prompt's id and the sample's number, so records do not
depend on batching, order or interruptions (on an engine whose responses do not depend on the batch).

Memory holds at most three responses per `max_in_flight`: one being scored, one in the queue, and one waiting for a
place in it. An engine that is faster than the scorer waits.
"""

import asyncio
import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig
from tqdm import tqdm

from rl.common.errors import UserError
from rl.data.rows import Prompt, PromptFiles
from rl.data.sample_file import LOG_PROB_DECIMALS, UNJUDGED, PendingResponse, SampleRecord, SampleWriter
from rl.scorer.client.scorer_client import ScorerClient


@dataclass(frozen=True)
class SamplingSettings:
    """Sampling parameters. Temperature 0 with n = 1 is greedy decoding."""

    n: int  # samples per prompt
    temperature: float
    top_p: float
    top_k: int  # -1: all tokens
    max_response_length: int  # tokens
    seed: int
    log_probs: bool = False  # whether records hold the engine's log-probs

    @classmethod
    def of(cls, config: DictConfig, *, n: int, seed: int, log_probs: bool = False) -> "SamplingSettings":
        """From actor_rollout_ref.rollout and data.max_response_length of verl's settings."""
        rollout = config.actor_rollout_ref.rollout
        return cls(
            n, rollout.temperature, rollout.top_p, rollout.top_k, config.data.max_response_length, seed, log_probs
        )

    def request(self, prompt_id: int, sample: int) -> dict[str, Any]:
        """The sampling_params of one request to verl's rollout server."""
        params = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "repetition_penalty": 1.0,
            "max_tokens": self.max_response_length,
            "seed": sample_seed(self.seed, prompt_id, sample),
            "logprobs": self.log_probs,
        }
        if self.temperature == 0:  # as verl requests greedy responses
            params |= {"top_p": 1.0, "top_k": -1}
        return params


def sample_seed(seed: int, prompt_id: int, sample: int) -> int:
    """63 bits of a hash of the three numbers, the same on every machine."""
    digest = hashlib.sha256(f"{seed}/{prompt_id}/{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


async def sample(
    client: Any,
    tokenizer: Any,
    prompts: Collection[Prompt] | PromptFiles,
    *,
    settings: SamplingSettings,
    stop_ids: frozenset[int],
    scorer: ScorerClient | None,
    writer: SampleWriter,
    max_in_flight: int,
) -> int:
    """Generate, score and write every sample missing from `writer`.

    Args:
        client: verl's LLMServerClient, or anything with its `generate`; not used if every response is there.
        tokenizer: decodes prompts and responses.
        prompts: each within the engine's length; read once, as they are needed.
        stop_ids: the model's end tokens; a response that does not end in one was truncated.
        scorer: None for prompts without ground truth.
        max_in_flight: requests to the engine at a time, and responses that may wait for their score.

    Returns:
        How many samples were generated now; those that the file held already do not count.

    Raises:
        ScorerUnavailable, ScorerRefused: a response could not be scored; everything before it is written.
    """
    total = len(prompts) * settings.n
    missing = total - len(writer.done)
    run = _Run(client, tokenizer, settings, stop_ids, scorer, writer, asyncio.Queue(max_in_flight))
    to_draw = run.missing(prompts)
    with tqdm(total=total, initial=len(writer.done), unit="sample", smoothing=0.1) as run.progress:
        try:
            async with asyncio.TaskGroup() as scoring:
                scorers = [scoring.create_task(run.score_responses()) for _ in range(max_in_flight)]
                async with asyncio.TaskGroup() as drawing:
                    for _ in range(min(max_in_flight, missing)):
                        drawing.create_task(run.generate_responses(to_draw))
                await run.responses.join()
                for task in scorers:
                    task.cancel()
        except ExceptionGroup as failures:
            raise _first(failures) from None  # the group holds it: it would be its own cause
    return run.samples


@dataclass(frozen=True)
class _Question:
    """A prompt with its decoded text, shared by its samples."""

    prompt: Prompt
    token_ids: list[int]
    text: str


@dataclass
class _Run:
    """State shared by the tasks of one call."""

    client: Any
    tokenizer: Any
    settings: SamplingSettings
    stop_ids: frozenset[int]
    scorer: ScorerClient | None
    writer: SampleWriter
    responses: asyncio.Queue[tuple[_Question, PendingResponse]]
    progress: Any = None  # a tqdm while samples are generated
    samples: int = 0  # generated

    def __post_init__(self):
        self.started, self.seconds_before = time.monotonic(), self.writer.seconds

    def missing(self, prompts: Iterable[Prompt]) -> Iterator[tuple[_Question, int]]:
        """(question, sample number) without a record, prompt by prompt for the engine's prefix cache."""
        for prompt in prompts:
            numbers = [number for number in range(self.settings.n) if (prompt.id, number) not in self.writer.done]
            if numbers:
                token_ids = prompt.token_ids.tolist()
                question = _Question(prompt, token_ids, self.tokenizer.decode(token_ids))
                yield from ((question, number) for number in numbers)

    async def generate_responses(self, to_draw: Iterator[tuple[_Question, int]]) -> None:
        for question, number in to_draw:
            # An earlier run may have drawn it and ended before its score.
            response = self.writer.waiting.get((question.prompt.id, number)) or await self.draw(question, number)
            await self.responses.put((question, response))

    async def draw(self, question: _Question, number: int) -> PendingResponse:
        id = question.prompt.id
        output = await self.client.generate(
            request_id=str(id),  # the router sends requests of one name to one replica, for its prefix cache
            prompt_ids=question.token_ids,
            sampling_params=self.settings.request(id, number),
        )
        if output.stop_reason == "aborted":
            raise RuntimeError(
                f"The rollout server aborted sample {number} of id {id}; re-run the same command to resume."
            )
        response_ids = [int(token) for token in output.token_ids][: self.settings.max_response_length]
        log_probs = self.read_log_probs(output.log_probs, len(response_ids)) if self.settings.log_probs else None
        seconds = self.seconds_before + time.monotonic() - self.started
        response = PendingResponse(
            id=id, sample=number, response_ids=response_ids, response_log_probs=log_probs, seconds=round(seconds, 3)
        )
        self.writer.keep(response)
        self.samples += 1
        return response

    def read_log_probs(self, log_probs: Sequence[float] | None, tokens: int) -> list[float]:
        if log_probs is None or len(log_probs) < tokens:
            raise UserError(
                f"The rollout gave {len(log_probs or ())} log-probs for a response of {tokens} tokens: set "
                "presample.log_probs=False to sample without them."
            )
        return [round(float(log_prob), LOG_PROB_DECIMALS) for log_prob in log_probs[:tokens]]

    async def score_responses(self) -> None:
        while True:
            question, response = await self.responses.get()
            row, response_ids = question.prompt.row, response.response_ids
            text = self.tokenizer.decode(response_ids, skip_special_tokens=True)
            verdict: dict[str, Any] = {"score": None, "acc": None, "pred": None, "outcome": UNJUDGED}
            if self.scorer is not None:
                score = await self.scorer.score(text, row.question)
                names = (*verdict, "result_digest", "result_rows")
                verdict = {name: getattr(score, name) for name in names}
            self.writer.append(
                SampleRecord(
                    **response.drawn(),
                    **verdict,
                    input=question.text,
                    output=text,
                    data_source=row.data_source,
                    truncated=not response_ids or response_ids[-1] not in self.stop_ids,
                )
            )
            self.progress.update()
            self.responses.task_done()


def _first(failures: BaseExceptionGroup) -> BaseException:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
