"""verl's agent loop workers for small models: what verl pays for every sample is paid once a worker or once a burst.

Measured on the demo (two cores, 256 samples a step of 50 tokens), verl's worker takes 16 ms of CPU a sample, and these
are most of it: building the agent loop through Hydra, which copies the whole configuration; sending the sample to a
reward worker and back; writing it to TransferQueue. On GPUs, where a sample takes seconds, nothing of this matters.
tests/trainer/test_upstream.py fails when the upstream code that this relies on changes.
"""

import asyncio
from typing import Any

import hydra
import ray
from tensordict import TensorDict

from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap, _agent_loop_registry
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.protocol import DataProto
from verl.trainer.ppo.v1 import agent_loop_tq
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

SHARED = "single_turn_agent"
WINDOW_SECONDS = 0.01

_AgentLoopWorkerTQ = AgentLoopWorkerTQ.__ray_metadata__.modified_class  # a Ray actor class cannot be subclassed


class SharedAgentLoopWorker(_AgentLoopWorkerTQ):
    """AgentLoopWorkerTQ with one single-turn agent loop, the reward manager in its process, and puts in bursts."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._shared = None
        if self.reward_loop_worker_handles and not self.config.reward.reward_model.enable:
            self.reward_loop_worker_handles = [_LocalRewardWorker(self.config)]
        # The worker's module hands each sample to TransferQueue through these two names.
        agent_loop_tq.tq = BurstQueue(agent_loop_tq.tq)
        agent_loop_tq.list_of_dict_to_tensordict = lambda rows: rows

    async def _run_agent_loop(self, sampling_params, trajectory, *, agent_name, trace=True, **kwargs):
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
        output = await self._shared.run(sampling_params, **kwargs)
        return await self._agent_loop_postprocess(output, trajectory["validate"], **kwargs)


class SharedAgentLoopManager(AgentLoopManagerTQ):
    """Chosen by actor_rollout_ref.rollout.agent.agent_loop_manager_class."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(SharedAgentLoopWorker)


class _LocalRewardWorker:
    """verl's RewardLoopWorker in this process, called as if it were a Ray actor: `handle.compute_score.remote(data)`."""

    def __init__(self, config):
        self._config = config
        self._worker: RewardLoopWorker | None = None
        self.compute_score = self

    def remote(self, data: DataProto):
        if self._worker is None:  # it takes the running event loop
            self._worker = RewardLoopWorker(self._config)
        return self._worker.compute_score(data)


class BurstQueue:
    """The transfer_queue module, with the puts of whole rows gathered for WINDOW_SECONDS into one.

    Everything else is the module's own.
    """

    def __init__(self, queue: Any):
        self._queue = queue
        self._waiting: dict[str, list[tuple[list, list, list, asyncio.Future]]] = {}
        self._sending: set[asyncio.Task] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def async_kv_batch_put(self, *, keys: list[str], fields: Any, tags: list[dict], partition_id: str) -> Any:
        """Put rows; returns when they are in. `fields` is a list of dicts, one a row, or a TensorDict (put at once)."""
        if isinstance(fields, TensorDict):
            return await self._queue.async_kv_batch_put(
                keys=keys, fields=fields, tags=tags, partition_id=partition_id
            )
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        waiting = self._waiting.setdefault(partition_id, [])
        if not waiting:
            loop.call_later(WINDOW_SECONDS, self._send, partition_id)
        waiting.append((keys, fields, tags, done))
        return await done

    def _send(self, partition_id: str) -> None:
        burst = self._waiting.pop(partition_id)
        task = asyncio.get_running_loop().create_task(self._put(burst, partition_id))
        self._sending.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._sending.discard)

    async def _put(self, burst: list, partition_id: str) -> None:
        keys, rows, tags = ([item for part in burst for item in part[column]] for column in range(3))
        try:
            result = await self._queue.async_kv_batch_put(
                keys=keys, fields=list_of_dict_to_tensordict(rows), tags=tags, partition_id=partition_id
            )
        except Exception as error:
            for *_, done in burst:
                if not done.done():
                    done.set_exception(error)
            return
        for *_, done in burst:
            if not done.done():
                done.set_result(result)
