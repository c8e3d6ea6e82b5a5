"""Samples every prompt n times and scores the answers, both at once, appending each record as it comes.

Resumable at the granularity of a sample: what the writer holds is not sampled again. The seed of a sample depends on
the run's seed, the prompt's id and the sample's number alone, so records do not depend on batching, order or
interruptions (on an engine whose answers do not depend on the batch).
"""

import asyncio
import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from verl.dph.prompts import Prompt
from verl.dph.records import SampleRecord, SampleWriter
from verl.dph.reward.client import ScorerClient


@dataclass(frozen=True)
class SamplingSettings:
    """How answers are drawn. Temperature 0 with n = 1 is greedy decoding."""

    n: int  # samples a prompt
    temperature: float
    top_p: float
    top_k: int  # -1: all tokens
    max_response_length: int  # tokens
    seed: int

    def request(self, prompt_id: int, sample: int) -> dict[str, Any]:
        """The sampling_params of one request to verl's rollout server."""
        params = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "repetition_penalty": 1.0,
            "max_tokens": self.max_response_length,
            "seed": sample_seed(self.seed, prompt_id, sample),
        }
        if self.temperature == 0:  # as verl asks for greedy answers
            params |= {"top_p": 1.0, "top_k": -1}
        return params


@dataclass(frozen=True)
class Drawn:
    """What one call of the sampler drew."""

    samples: int
    tokens: int  # of responses
    seconds: float  # sampling and scoring, without the engine's start

    def __str__(self) -> str:
        rate = self.tokens / self.seconds if self.seconds else 0.0
        return f"{self.samples} samples, {self.tokens} response tokens in {self.seconds:.1f} s ({rate:.0f} tokens/s)"


def sample_seed(seed: int, prompt_id: int, sample: int) -> int:
    """63 bits that depend on the three numbers and on nothing else, the same on every machine."""
    digest = hashlib.sha256(f"{seed}/{prompt_id}/{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


async def sample(
    client: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    *,
    settings: SamplingSettings,
    stop_ids: frozenset[int],
    scorer: ScorerClient,
    writer: SampleWriter,
    max_in_flight: int,
) -> Drawn:
    """Draws, scores and writes every sample that `writer` lacks.

    Args:
        client: verl's LLMServerClient, or anything with its `generate`.
        tokenizer: decodes prompts and responses.
        prompts: what to sample, each within the engine's length.
        stop_ids: the model's end tokens; a response that does not end in one was cut off.
        max_in_flight: requests to the engine at a time; as many answers may wait for their score.

    Returns:
        What was drawn now; samples that the file held already do not count.

    Raises:
        ScorerUnavailable, ScorerRefused: an answer could not be scored; everything before it is written.
    """
    started = time.monotonic()
    run = _Run(client, tokenizer, settings, stop_ids, scorer, writer, asyncio.Queue(max_in_flight))
    total = len(prompts) * settings.n
    # The samples of one prompt stand together, for the engine's prefix cache.
    wanted = ((prompt, number) for prompt in prompts for number in range(settings.n))
    missing = [(prompt, number) for prompt, number in wanted if (prompt.id, number) not in writer.done]
    to_draw = iter(missing)
    with tqdm(total=total, initial=total - len(missing), unit="sample", smoothing=0.1) as run.progress:
        try:
            async with asyncio.TaskGroup() as scoring:
                scorers = [scoring.create_task(run.score_answers()) for _ in range(max_in_flight)]
                async with asyncio.TaskGroup() as drawing:
                    for _ in range(min(max_in_flight, len(missing))):
                        drawing.create_task(run.draw_answers(to_draw))
                await run.answers.join()
                for task in scorers:
                    task.cancel()
        except ExceptionGroup as failures:
            raise _first(failures) from failures
    return Drawn(samples=len(missing), tokens=run.tokens, seconds=time.monotonic() - started)


@dataclass
class _Run:
    """What the tasks of one call share."""

    client: Any
    tokenizer: Any
    settings: SamplingSettings
    stop_ids: frozenset[int]
    scorer: ScorerClient
    writer: SampleWriter
    answers: asyncio.Queue  # of (prompt, sample number, response ids)
    progress: tqdm | None = None
    tokens: int = 0

    async def draw_answers(self, to_draw: Iterator[tuple[Prompt, int]]) -> None:
        for prompt, number in to_draw:
            output = await self.client.generate(
                request_id=f"{prompt.id}-{number}",
                prompt_ids=prompt.token_ids.tolist(),
                sampling_params=self.settings.request(prompt.id, number),
            )
            if output.stop_reason == "aborted":
                raise RuntimeError(
                    f"The rollout server aborted sample {number} of id {prompt.id}; run again, it resumes."
                )
            response_ids = [int(token) for token in output.token_ids][: self.settings.max_response_length]
            self.tokens += len(response_ids)
            await self.answers.put((prompt, number, response_ids))

    async def score_answers(self) -> None:
        while True:
            prompt, number, response_ids = await self.answers.get()
            text = self.tokenizer.decode(response_ids, skip_special_tokens=True)
            score = await self.scorer.score(text, prompt.row.question)
            self.writer.append(
                SampleRecord(
                    id=prompt.id,
                    sample=number,
                    input=self.tokenizer.decode(prompt.token_ids.tolist()),
                    output=text,
                    response_ids=response_ids,
                    score=score.score,
                    acc=score.acc,
                    pred=score.pred,
                    outcome=score.outcome,
                    data_source=prompt.row.data_source,
                    truncated=not response_ids or response_ids[-1] not in self.stop_ids,
                )
            )
            self.progress.update()
            self.answers.task_done()


def _first(failures: BaseExceptionGroup) -> BaseException:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
