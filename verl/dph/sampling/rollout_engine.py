"""verl's rollout servers without a trainer: the engine of presample and evaluate."""

import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import ray
from omegaconf import DictConfig, OmegaConf
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env
from verl.utils.device import get_resource_name
from verl.workers.rollout.llm_server import LLMServerClient, LLMServerManager
from verl.workers.rollout.replica import RolloutMode

from rl.common.errors import UserError
from rl.common.model_files import parameters_in_files
from rl.common.ray_cpus import PER_ROLLOUT_RANK
from rl.common.signals import own_sigterm
from verl.dph import plugin
from verl.dph.cpu.in_process import use_in_process_router
from verl.dph.sampling.ray_cluster import join_running

if TYPE_CHECKING:
    from verl.dph.hf_rollout.server import HFServer

logger = logging.getLogger(__name__)

RANKS = "trainer.nnodes x trainer.n_gpus_per_node"  # in messages
_IN_THIS_PROCESS = 10_000_000  # parameters


@asynccontextmanager
async def rollout_client(config: DictConfig) -> "AsyncIterator[LLMServerClient | HFServer]":
    """Start Ray if none runs, and rollout replicas with the weights of actor_rollout_ref.model.path.

    The replicas are data-parallel over trainer.nnodes x trainer.n_gpus_per_node. They and a Ray that was started here
    end with the block. A single hf replica of a small model on a CPU runs in this process, without Ray.

    Args:
        config: verl's trainer settings that check_rollout accepted, with rollout.nnodes above 0.

    Raises:
        UserError: fewer GPUs than asked for.
    """
    rollout, started = config.actor_rollout_ref.rollout, time.monotonic()
    model = config.actor_rollout_ref.model.path
    logger.info("Starting %d x the rollout engine %s with %s", replica_count(config), rollout.name, model)
    if runs_in_this_process(config):
        async with _server_in_this_process(config) as server:
            yield server
        return
    starts_ray = not ray.is_initialized()
    if starts_ray:
        _start_ray(config)
    manager: Any = None
    client: Any = None
    try:
        _check_resources(config)
        manager = await _start_servers(config)
        client = client_of(manager)
        logger.info("The engine is up after %.0f s", time.monotonic() - started)
        yield client
    finally:
        if hasattr(client, "close"):  # of hf servers
            await client.close()
        if manager is not None:
            _stop_servers(manager)
        if starts_ray:
            ray.shutdown()


def runs_in_this_process(config: DictConfig) -> bool:
    """Whether the only replica needs no process of its own.

    A step of a larger model takes seconds on a CPU, in which this process could not ask the scorer, whose time limits
    would end the run.
    """
    if config.actor_rollout_ref.rollout.name != "hf" or config.trainer.device != "cpu" or replica_count(config) != 1:
        return False
    return 0 < parameters_in_files(config.actor_rollout_ref.model.path) <= _IN_THIS_PROCESS


@asynccontextmanager
async def _server_in_this_process(config: DictConfig) -> "AsyncIterator[HFServer]":
    """The hf rollout's server as its own client, because starting Ray would take longer than sampling."""
    from verl.dph.hf_rollout.server import HFServer

    rollout, model = config.actor_rollout_ref.rollout, config.actor_rollout_ref.model
    server = HFServer(rollout, model, RolloutMode.STANDALONE, 0, "cpu")
    await server.launch_server()
    try:
        yield server
    finally:
        server.close()


def client_of(manager: LLMServerManager) -> LLMServerClient:
    """The client of the manager's servers; for hf servers one that batches requests."""
    client = manager.get_client()
    if manager.rollout_config.name != "hf":
        return client
    from verl.dph.hf_rollout.burst_client import BurstClient

    return BurstClient(client)


def ranks_of(config: DictConfig) -> int:
    """The trainer's ranks, or without a trainer the rollout's."""
    return config.trainer.nnodes * config.trainer.n_gpus_per_node


def replica_count(config: DictConfig) -> int:
    """Number of replicas: all ranks over the ranks of one replica.

    Raises:
        UserError: ranks are left over.
    """
    rollout, ranks = config.actor_rollout_ref.rollout, ranks_of(config)
    of_one = rollout.tensor_model_parallel_size * rollout.data_parallel_size * rollout.pipeline_model_parallel_size
    if ranks % of_one:
        sizes = "tensor_model_parallel_size x data_parallel_size x pipeline_model_parallel_size"
        raise UserError(
            f"actor_rollout_ref.rollout.{sizes}={of_one} does not divide {RANKS}={ranks}: use a divisor of {ranks}."
        )
    return ranks // of_one


def check_gpus(wanted: int, settings: str) -> None:
    """Reject a running Ray whose nodes together have too few GPUs.

    Args:
        settings: the ones that ask for them.
    """
    found = ray.cluster_resources().get(get_resource_name(), 0)
    if found < wanted:
        raise UserError(
            f"{settings} ask for {wanted} GPUs and Ray has {found:g}: lower them, or use a machine with more."
        )


def check_rollout(config: DictConfig) -> None:
    """Reject, before Ray starts, rollout settings that cannot work together or here."""
    check_platform(config)
    rollout = config.actor_rollout_ref.rollout
    if "dummy" in rollout.load_format:
        raise UserError(
            f"actor_rollout_ref.rollout.load_format={rollout.load_format} would sample from random weights: use auto."
        )


def check_platform(config: DictConfig) -> None:
    """Reject a plugin that is switched off, a device that does not go with verl's platform, or a missing rollout."""
    plugin.check_environment()
    wanted, found = config.trainer.device, os.environ.get("VERL_PLATFORM")
    if (wanted == "cpu") != (found == "cpu"):
        raise UserError(
            f"trainer.device={wanted} does not go with VERL_PLATFORM={found!r} in the environment: unset "
            "it, and choose the device by device=cpu or device=cuda alone."
        )


def _start_ray(config: DictConfig) -> None:
    """Start Ray as verl's run_ppo does, with the settings of ray_kwargs.ray_init."""
    join_running(config)
    settings = config.ray_kwargs.get("ray_init", {})
    runtime_env = OmegaConf.merge(get_ppo_ray_runtime_env(config), settings.get("runtime_env", {}))
    with own_sigterm():
        ray.init(**OmegaConf.to_container(OmegaConf.create({**settings, "runtime_env": runtime_env})))


def _check_resources(config: DictConfig) -> None:
    wanted, resources = ranks_of(config), ray.cluster_resources()
    check_gpus(wanted, RANKS)
    # hf servers reserve no CPU here.
    if resources.get("CPU", 0) < wanted * PER_ROLLOUT_RANK and config.actor_rollout_ref.rollout.name != "hf":
        raise UserError(
            f"{wanted} ranks of rollouts reserve {wanted * PER_ROLLOUT_RANK} of Ray's CPUs, and Ray has "
            f"{resources.get('CPU', 0):g} and would wait for the others forever: use fewer ranks, or give the machine "
            "or container more CPUs."
        )


async def _start_servers(config: DictConfig) -> LLMServerManager:
    if config.trainer.device == "cpu":
        use_in_process_router()
    # verl inspects its caller to decide whether `create` is awaited: the caller must be a plain coroutine.
    return await LLMServerManager.create(config)


def _stop_servers(manager: LLMServerManager) -> None:
    """Kill the actors of all replicas, which frees their names and devices."""
    for replica in manager.get_replicas():
        for actor in [*replica.servers, *replica.workers]:
            ray.kill(actor)
        if replica.resource_pool is not None:
            for group in replica.resource_pool.get_placement_groups():
                ray.util.remove_placement_group(group)
    if isinstance(manager.global_load_balancer, ray.actor.ActorHandle):  # on a CPU it is in this process
        ray.kill(manager.global_load_balancer)
