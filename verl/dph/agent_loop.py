"""verl's agent loop workers, with one agent loop a worker instead of one a sample.

verl builds the agent loop of every sample anew through Hydra, which copies the whole configuration: measured on the demo
(two cores, 256 samples a step), 37 % of the worker's time. The single-turn loop keeps nothing between samples.
"""

import hydra
import ray

from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap, _agent_loop_registry
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

SHARED = "single_turn_agent"

_AgentLoopWorkerTQ = AgentLoopWorkerTQ.__ray_metadata__.modified_class  # a Ray actor class cannot be subclassed


class SharedAgentLoopWorker(_AgentLoopWorkerTQ):
    """AgentLoopWorkerTQ that builds its single-turn agent loop once."""

    _shared = None

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
