"""verl's agent loop workers for small models: costs per sample become costs per worker or burst.

On the demo (two cores, 256 samples of 50 tokens a step) verl's worker takes 16 ms of CPU per sample. Most of it is
building the agent loop through Hydra, which copies the whole configuration, sending the sample to a reward worker and
back, and writing it to TransferQueue. On GPUs, where a sample takes seconds, this does not matter.

With hf servers every sample has a seed, from the run's seed, its prompt's name and its number, and all samples that are
requested together are one burst (burst_client.py), so that a run is reproducible to the last bit.

tests/training/test_upstream.py fails when the upstream code that this relies on changes.
"""

import asyncio
import functools
import json
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any

import hydra
import torch
from omegaconf import DictConfig
from tensordict import NonTensorData, TensorDict
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap, _agent_loop_registry
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.protocol import DataProto
from verl.trainer.ppo.v1 import agent_loop_tq
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from rl.data.rows import SAMPLES
from verl.dph.cpu.in_process import InProcessActorClass
from verl.dph.hf_rollout.burst_client import Burst, BurstClient
from verl.dph.hf_rollout.sampling import stable_key

SHARED = "single_turn_agent"
WINDOW_SECONDS = 0.01
# A prompt's seed: a column of a batch on its way to the workers.
SEED = "sampling_seed"

# A Ray actor class cannot be subclassed; the class that it wraps can.
_AgentLoopWorkerTQ: Any = AgentLoopWorkerTQ.__ray_metadata__.modified_class
_burst: ContextVar[Burst | None] = ContextVar("_burst", default=None)  # of the tasks that a call of a worker starts


def seed_of(*parts: Any) -> int:
    """63 bits of a hash of the parts."""
    return stable_key(*parts) >> 65


class SharedAgentLoopWorker(_AgentLoopWorkerTQ):
    """AgentLoopWorkerTQ with one single-turn agent loop, the reward manager in its process, and puts in bursts."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._shared = None
        if not self.config.reward.reward_model.enable:
            self.reward_loop_worker_handles = [_LocalRewardWorker(self.config)]
        # The worker's module hands each sample to TransferQueue through these two names.
        agent_loop_tq.tq = BurstQueue(agent_loop_tq.tq)
        agent_loop_tq.list_of_dict_to_tensordict = lambda rows: rows

    async def generate_sequences(self, batch: TensorDict) -> None:
        """verl's, with the requests of all samples of `batch` to hf servers in one burst."""
        token = _burst.set(self._burst_of(batch))
        try:
            await super().generate_sequences(batch)
        finally:
            _burst.reset(token)

    def _burst_of(self, batch: TensorDict) -> Burst | None:
        rollout, validates = self.config.actor_rollout_ref.rollout, "validate" in batch and batch["validate"]
        if not isinstance(self.llm_client, BurstClient) or not (validates or self._asks_once_a_step()):
            return None
        samples = rollout.val_kwargs.n if validates else rollout.n
        return self.llm_client.burst(int(sum(batch[SAMPLES])) if SAMPLES in batch else samples * len(batch))

    def _asks_once_a_step(self) -> bool:
        """Whether all prompts of a step come in one call.

        Dynamic sampling requests more whenever some are done. Timing decides which of these are answered together, and
        a burst for each request would make many small, slow batches.
        """
        filter_groups = self.config.algorithm.get("filter_groups", None)
        return not (filter_groups and filter_groups.enable)

    async def _run_agent_loop(self, sampling_params, trajectory, *, agent_name, trace=True, **kwargs):
        prompt_seed, burst = kwargs.pop(SEED, None), _burst.get()
        if prompt_seed is not None:
            sampling_params = sampling_params | {"seed": seed_of(int(prompt_seed), kwargs["session_id"])}
        with nullcontext() if burst is None else burst.member():
            return await self._run_sample(sampling_params, trajectory, agent_name=agent_name, trace=trace, **kwargs)

    async def _run_sample(self, sampling_params, trajectory, *, agent_name, trace, **kwargs):
        if agent_name != SHARED or trace:
            return await super()._run_agent_loop(
                sampling_params, trajectory, agent_name=agent_name, trace=trace, **kwargs
            )
        if self._shared is None:
            self._shared = hydra.utils.instantiate(
                config=_agent_loop_registry[SHARED],
                trainer_config=DictConfigWrap(config=self.config),
                server_manager=self.llm_client,
                tokenizer=self.tokenizer,
                processor=self.processor,
                hf_model_type=self.hf_model_type,
                dataset_cls=self.dataset_cls,
                data_config=DictConfigWrap(self.config.data),
                tools=ToolListWrap(self.tools),
            )
            if self.processor is None:
                self._shared.continuous_token_builder = _PromptsOnce(self._shared.continuous_token_builder)
        output = await self._shared.run(sampling_params, **kwargs)
        return await self._agent_loop_postprocess(output, trajectory["validate"], **kwargs)


class _PromptsOnce:
    """A text model's token builder that renders a prompt once for all of its samples."""

    def __init__(self, builder: Any):
        self._builder = builder
        self._rendered = functools.lru_cache(maxsize=1024)(self._render)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)

    def build_initial_tokens(self, messages: list[dict], *, tools: list[dict] | None = None, **media: Any) -> list[int]:
        """The ids of the prompt's tokens. Media are ignored, as in verl's builders for text."""
        return list(self._rendered(json.dumps([messages, tools])))

    def _render(self, text: str) -> tuple[int, ...]:
        messages, tools = json.loads(text)
        return tuple(self._builder.build_initial_tokens(messages, tools=tools))


class SharedAgentLoopManager(AgentLoopManagerTQ):
    """Chosen by actor_rollout_ref.rollout.agent.agent_loop_manager_class."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = InProcessActorClass(SharedAgentLoopWorker)
        self._validated: dict[int, int] = {}  # {the last step that validated: prompts so far}

    def generate_sequences(self, prompts: TensorDict) -> None:
        """verl's; for hf servers every prompt gets a seed from the run's seed and its name."""
        if isinstance(self.llm_client, BurstClient):
            seed = self.config.actor_rollout_ref.rollout.seed
            prompts[SEED] = torch.tensor([seed_of(seed, *name) for name in self._names(prompts)])
        super().generate_sequences(prompts)

    def _names(self, prompts: TensorDict) -> list[tuple]:
        """Unique names of the prompts: in training their uids (training/rollout_ledger.py).

        In validation, where verl's uids are random, the step and the prompt's number in it.
        """
        if not ("validate" in prompts and prompts["validate"]):
            return [(uid,) for uid in prompts["uid"]]
        step = prompts["global_steps"]
        first = self._validated.get(step, 0)
        self._validated = {step: first + len(prompts)}
        return [("validation", step, number) for number in range(first, first + len(prompts))]


class _InlineExecutor(ThreadPoolExecutor):
    """Runs a call where it is submitted.

    verl's agent loop sends each tokenization to a thread. It takes microseconds; waiting for the interpreter's lock
    takes a third of the agent loop's time.
    """

    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class _LocalRewardWorker:
    """verl's RewardLoopWorker in this process, called like a Ray actor: `handle.compute_score.remote(data)`."""

    def __init__(self, config: DictConfig):
        self._config = config
        self._worker: RewardLoopWorker | None = None
        self.compute_score = self

    def remote(self, data: DataProto):
        if self._worker is None:
            self._worker = RewardLoopWorker(self._config)  # it takes the running event loop
            # A reward function that is not a coroutine function may block: it stays in verl's threads.
            if getattr(self._worker.reward_manager, "is_async_reward_score", False):
                self._worker.loop.set_default_executor(_InlineExecutor())
        return self._worker.compute_score(_OneSample(data.batch, data.non_tensor_batch, data.meta_info))


class _OneSample(DataProto):
    """A batch of one row. Reward managers select the last row first, and copying a row costs more than its score."""

    def __getitem__(self, item):
        whole = isinstance(item, slice) and len(self) == 1 == len(range(*item.indices(1)))
        return self if whole else super().__getitem__(item)


class BurstQueue:
    """The transfer_queue module, with puts of whole rows gathered for WINDOW_SECONDS into one put."""

    def __init__(self, queue: Any):
        self._queue = queue
        self._open: dict[str, tuple[list[tuple], asyncio.Task]] = {}  # {partition: waiting rows, their put}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def async_kv_batch_put(self, *, keys: list[str], fields: Any, tags: list[dict], partition_id: str) -> Any:
        """Put rows and return when they are stored. `fields` is a list with a dict per row, or a TensorDict."""
        if isinstance(fields, TensorDict):
            return await self._queue.async_kv_batch_put(keys=keys, fields=fields, tags=tags, partition_id=partition_id)
        if partition_id not in self._open:
            burst: list[tuple] = []
            self._open[partition_id] = burst, asyncio.create_task(self._put(burst, partition_id))
        burst, put = self._open[partition_id]
        burst.append((keys, fields, tags))
        return await asyncio.shield(put)  # a caller that goes away does not cancel the others' put

    async def _put(self, burst: list[tuple], partition_id: str) -> Any:
        await asyncio.sleep(WINDOW_SECONDS)
        del self._open[partition_id]
        keys, rows, tags = ([item for part in burst for item in part[column]] for column in range(3))
        return await self._queue.async_kv_batch_put(
            keys=keys, fields=_columns(rows), tags=tags, partition_id=partition_id
        )


def _columns(rows: list[dict]) -> TensorDict:
    """The rows as verl's list_of_dict_to_tensordict converts them, but a value that several rows share is wrapped once.

    The samples of a prompt share most of their values. Wrapping each value of each row takes a quarter of the agent
    loop's time.
    """
    values = {id(value): value for row in rows for value in row.values()}
    wrapped = {
        name: value if isinstance(value, torch.Tensor) else NonTensorData(value) for name, value in values.items()
    }
    return list_of_dict_to_tensordict([{key: wrapped[id(value)] for key, value in row.items()} for row in rows])
