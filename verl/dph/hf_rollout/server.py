"""The server of the rollout "hf": a Ray actor with a Hugging Face causal language model on the CPU or one GPU.

It has the methods of verl's vLLM server (vllm_async_server.py) that verl's LLMServerClient and RolloutReplica call.
Everything runs on the actor's event loop between the steps of a generation: a step is never interrupted, and only the
weights need a lock.
"""

import asyncio
import itertools
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.device import get_device_name, get_torch_device
from verl.utils.tokenizer import normalize_token_ids
from verl.utils.torch_dtypes import PrecisionType
from verl.workers.config import HFModelConfig
from verl.workers.rollout.replica import RolloutMode, TokenOutput
from verl.workers.rollout.utils import get_max_position_embeddings

from rl.common.errors import UserError
from verl.dph.config.attention import EAGER, KEY, SDPA, soft_cap
from verl.dph.hf_rollout import attention
from verl.dph.hf_rollout.generation import Generation, Request, why_not
from verl.dph.hf_rollout.sampling import SamplingParams, end_ids, stable_key, uniforms
from verl.dph.hf_rollout.weights import WeightStage

logger = logging.getLogger(__name__)

# A burst of requests is over when none has come for _QUIET_SECONDS; a steady stream is cut after _LONGEST_WAIT_SECONDS.
_QUIET_SECONDS = 0.015
_LONGEST_WAIT_SECONDS = 0.25
# A batch of a larger model takes minutes on a CPU; its first responses are sent while the others are generated.
_ANSWER_SECONDS = 5.0


class HFServer:
    """Generate for the requests that arrive together as one batch.

    Args:
        config: verl's RolloutConfig; read are dtype, load_format, max_model_len, max_num_seqs, prompt_length,
            response_length, ignore_eos and seed.
        model_config: verl's HFModelConfig.
        rollout_mode: a hybrid server with load_format "dummy" waits for its weights; others load them from the path.
        replica_rank: part of the seed of requests without one.
        device: "cpu", or "cuda" for the first GPU that this process sees; None: the device of verl's platform.
    """

    def __init__(
        self,
        config,
        model_config,
        rollout_mode: RolloutMode,
        replica_rank: int,
        device: str | None = None,
    ) -> None:
        # One by default, because the servers of all ranks share the cores.
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or 1))
        self._device = device or get_device_name()
        self.config = omega_conf_to_dataclass(config)
        self.model_config = omega_conf_to_dataclass(model_config, dataclass_type=HFModelConfig)
        self.replica_rank = replica_rank
        self.global_steps: int | None = None
        self._waits_for_weights = rollout_mode == RolloutMode.HYBRID and "dummy" in self.config.load_format
        self._queue: list[tuple[Request, asyncio.Future]] = []
        self._active: dict[Request, asyncio.Future] = {}
        self._prompts_seen: Counter[tuple[int, ...]] = Counter()
        self._burst_numbers = itertools.count()
        self._arrived = asyncio.Event()
        self._model_lock = asyncio.Lock()
        self._serving: asyncio.Task | None = None

    async def launch_server(self) -> None:
        """Load the model and start serving.

        Raises:
            UserError: `Generation` cannot sample the model.
        """
        self._model = self._load_model()
        if reason := why_not(self._model, self.model_config.path):
            raise UserError(reason)
        self._stage = WeightStage(self._model)
        self._eos_ids = end_ids(self.model_config.tokenizer, self.model_config.generation_config)
        limit = get_max_position_embeddings(self._model.config)
        self._max_length = min(self.config.max_model_len or limit, limit)
        self._serving = asyncio.get_running_loop().create_task(self._serve())

    def close(self) -> None:
        """Stop a server that is not a Ray actor."""
        if self._serving is not None:
            self._serving.cancel()

    def _load_model(self) -> torch.nn.Module:
        dtype = PrecisionType.to_dtype(self.config.dtype)
        # In float32 the folded attention would change the last digits, and with them the tiny demo's samples.
        folded = self._device == "cpu" and dtype != torch.float32
        implementation = self.model_config.override_config.get(KEY, SDPA)
        if soft_cap(self.model_config.hf_config):
            implementation = EAGER if "flash" not in implementation else implementation
        elif folded:
            implementation = attention.register()
        settings = {
            "dtype": dtype,
            KEY: implementation,
            "trust_remote_code": self.model_config.trust_remote_code,
        }
        if self._waits_for_weights:
            model = AutoModelForCausalLM.from_config(self.model_config.hf_config, **settings)
        else:
            model = AutoModelForCausalLM.from_pretrained(
                self.model_config.local_path, config=self.model_config.hf_config, **settings
            )
        return model.to(self._device).eval().requires_grad_(False)

    async def get_server_address(self) -> str:
        """A unique name for the load balancer; nothing listens there."""
        return f"hf-server-{self.replica_rank}"

    # ---- generation

    async def generate(
        self,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        request_id: str,
        burst: int | None = None,
    ) -> TokenOutput:
        """Continue a prompt.

        Args:
            prompt_ids: token ids, at least one.
            sampling_params: see `SamplingParams.from_request`.
            request_id: for errors.
            burst: see `Request`.

        Returns:
            token ids, their log-probabilities if asked for, and the weights' version in extra_fields["global_steps"].

        Raises:
            ValueError: for an invalid request.
            RuntimeError: when the weights have not arrived, or the generation failed.
        """
        request = self._read_request(list(normalize_token_ids(prompt_ids)), sampling_params, request_id)
        request.burst = burst
        answer = asyncio.get_running_loop().create_future()
        self._queue.append((request, answer))
        self._arrived.set()
        return await answer

    async def generate_many(
        self, requests: list[tuple[list[int], dict[str, Any], str]], whole: bool = False
    ) -> AsyncIterator[dict[int, TokenOutput | BaseException]]:
        """Yield outputs of (prompt_ids, sampling_params, request_id) requests as they end, every few seconds.

        A `whole` burst is not mixed with other requests: its batches (of max_num_seqs), and so the last digits of its
        log-probs, depend on itself alone. Its outputs come all at once, because the order in which they come decides
        the order in which verl adds numbers up.

        Yields:
            {index of the request, ascending: its output, or the exception of one that failed}.
        """
        burst = next(self._burst_numbers) if whole else None
        tasks = {i: asyncio.create_task(self.generate(*request, burst)) for i, request in enumerate(requests)}
        while tasks:
            await asyncio.wait(tasks.values(), timeout=None if whole else _ANSWER_SECONDS)
            ended = [i for i, task in tasks.items() if task.done()]
            if ended:
                yield {i: (task := tasks.pop(i)).exception() or task.result() for i in ended}

    def _read_request(self, prompt_ids: list[int], sampling_params: dict[str, Any], request_id: str) -> Request:
        room = self._max_length - len(prompt_ids)
        if not prompt_ids or room < 1:
            raise ValueError(
                f"request {request_id}: a prompt of {len(prompt_ids)} tokens leaves no room for a response within "
                f"max_model_len={self._max_length}"
            )
        config = self.config
        default = min(config.response_length, config.prompt_length + config.response_length - len(prompt_ids))
        params = SamplingParams.from_request(
            sampling_params, default_max_tokens=max(default, 1), room=room, ignore_eos=config.ignore_eos
        )
        stop_ids = params.stop_token_ids if params.ignore_eos else params.stop_token_ids | self._eos_ids
        return Request(prompt_ids, params, stop_ids, uniforms(self._random_key(prompt_ids, params.seed)))

    def _random_key(self, prompt_ids: list[int], seed: int | None) -> int:
        """Key of a request's random numbers: its seed or, without one, the server and what it has seen."""
        if seed is not None:
            return stable_key("seed", seed, prompt_ids)
        prompt = tuple(prompt_ids)
        self._prompts_seen[prompt] += 1
        times = self._prompts_seen[prompt]
        return stable_key(self.config.seed, self.replica_rank, self.global_steps, prompt_ids, times)

    def _answer(self, request: Request) -> TokenOutput:
        return TokenOutput(
            token_ids=request.token_ids,
            log_probs=request.log_probs if request.params.logprobs else None,
            stop_reason="completed",
            extra_fields={"global_steps": self.global_steps},
        )

    async def _serve(self) -> None:
        """Serve batch after batch. A failure goes to the callers of its batch, and serving continues."""
        while True:
            await self._arrived.wait()
            await self._wait_for_quiet()
            async with self._model_lock:
                batch = self._next_batch()
                if not self._queue:
                    self._arrived.clear()
                self._active = dict(batch)
                try:
                    await self._answer_batch()
                except Exception as error:
                    logger.exception("generation of %d requests failed", len(batch))
                    for answer in self._active.values():
                        if not answer.done():
                            answer.set_exception(RuntimeError(f"generation failed in the hf rollout: {error!r}"))
                finally:
                    self._active = {}

    def _next_batch(self) -> list[tuple[Request, asyncio.Future]]:
        """Take the oldest request from the queue and all that share its batch, in order of arrival."""
        burst = self._queue[0][0].burst
        batch = [entry for entry in self._queue if entry[0].burst == burst][: self.config.max_num_seqs]
        taken = {request for request, _ in batch}
        self._queue = [entry for entry in self._queue if entry[0] not in taken]
        return batch

    async def _wait_for_quiet(self) -> None:
        """Return when a burst of requests has ended or fills a batch; at once for a whole burst."""
        if self._queue and self._queue[0][0].burst is not None:
            return
        clock = asyncio.get_running_loop().time
        deadline = clock() + _LONGEST_WAIT_SECONDS
        waiting = 0
        while waiting < len(self._queue) < self.config.max_num_seqs and clock() < deadline:
            waiting = len(self._queue)
            await asyncio.sleep(_QUIET_SECONDS)

    async def _answer_batch(self) -> None:
        if self._waits_for_weights:
            raise RuntimeError(
                "no weights have arrived yet: rollout.load_format=dummy needs an update of the weights before a request"
            )
        generation = Generation(self._model, list(self._active), len(self.model_config.tokenizer))
        while self._active:
            for request in generation.step():
                self._resolve(request)
            # Let requests arrive and outputs leave between two steps.
            await asyncio.sleep(0)

    def _resolve(self, request: Request) -> None:
        answer = self._active.pop(request)
        # a caller that is gone has cancelled its future
        if not answer.done():
            answer.set_result(self._answer(request))

    # ---- weights

    async def stage_weights(self, bucket: bytes, first: bool) -> None:
        """Receive some of the weights of an update; `first` begins a new one and forgets an unfinished one."""
        if first:
            self._stage.clear()
        self._stage.add(bucket)

    async def commit_weights(self, global_steps: int | None) -> None:
        """Put the staged weights into the model, all at once and between two batches.

        Args:
            global_steps: the version of the weights, reported with every output from now on.

        Raises:
            ValueError: when they do not fit the model, which keeps its old ones (see WeightStage.commit).
        """
        async with self._model_lock:
            self._stage.commit()
            self._waits_for_weights = False
            self._prompts_seen.clear()
            if global_steps is not None:
                self.global_steps = global_steps

    # ---- control, called by verl's RolloutReplica

    async def sleep(self, *args: Any, **kwargs: Any) -> None:
        """Free the GPU memory of past batches; the weights stay."""
        get_torch_device().empty_cache()

    async def nothing(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is offloaded, no cache outlives a batch, and there is no profiler of this server."""

    wake_up = clear_kv_cache = release_kv_cache = resume_kv_cache = start_profile = stop_profile = nothing
