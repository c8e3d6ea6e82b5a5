"""Objects of this process behind the interface of Ray actors.

Without a GPU a training run takes minutes, and each actor spends about six seconds of a core importing verl before its
first call. The trainer, the agent loop, the load balancer and TransferQueue therefore share the driver's process.
"""

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

import ray
from omegaconf import DictConfig
from transfer_queue import interface
from transfer_queue.controller import TransferQueueController
from transfer_queue.storage.bootstrap import simple_storage_bootstrap
from transfer_queue.storage.simple_storage import SimpleStorageUnit
from verl.utils import transferqueue_utils
from verl.workers.rollout import router


class InProcessActor:
    """`actor.method.remote(...)` calls the method here and returns its result as a ray.ObjectRef.

    Coroutines run on an event loop in a separate thread, and so do the tasks that they start. `remote` raises what the
    method raises.
    """

    def __init__(self, instance: Any):
        self._instance = instance
        self._loop: asyncio.AbstractEventLoop | None = None

    def __getattr__(self, name: str) -> "_Method":
        return _Method(self, getattr(self._instance, name))

    def __reduce__(self):
        raise TypeError(f"{type(self._instance).__name__} runs in one process and cannot be sent to another.")

    def call(self, method: Callable, *args: Any, **kwargs: Any) -> Any:
        if not asyncio.iscoroutinefunction(method):
            return method(*args, **kwargs)
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(method(*args, **kwargs), self._loop).result()


class _Method:
    def __init__(self, actor: InProcessActor, method: Callable):
        self._actor, self._method = actor, method

    def remote(self, *args: Any, **kwargs: Any) -> ray.ObjectRef:
        return ray.put(self._actor.call(self._method, *args, **kwargs))


class InProcessActorClass:
    """`actor_class.remote(...)` makes an InProcessActor and ignores a Ray actor's options."""

    def __init__(self, of: type):
        self._of = of

    def options(self, **options: Any) -> "InProcessActorClass":
        return self

    def remote(self, *args: Any, **kwargs: Any) -> InProcessActor:
        return InProcessActor(self._of(*args, **kwargs))


def use_in_process_router() -> None:
    """Keep verl's default load balancer in this process, where all of its clients are on a CPU."""
    stock = inspect.unwrap(router.get_router_handle)

    @functools.wraps(stock)
    def get_router_handle(servers, router_config_path=None, full_determinism=False, load_balancer_cls=None):
        if router_config_path or load_balancer_cls:
            return stock(servers, router_config_path, full_determinism, load_balancer_cls)
        return InProcessActor(router.GlobalRequestLoadBalancer(servers, full_determinism=full_determinism))

    router.get_router_handle = get_router_handle


def use_in_process_queue() -> None:
    """Keep TransferQueue's controller and storage units in this process, as threads. Call it before tq.init.

    They serve other processes over sockets. Ray only starts them, and finds the controller by its name; in place of
    that, other processes call `join_queue` with the `queue_settings` of this one.
    """
    interface.TransferQueueController = _in_process(TransferQueueController)
    simple_storage_bootstrap.SimpleStorageUnit = _in_process(SimpleStorageUnit)


def _in_process(actor_class: Any) -> InProcessActorClass:
    return InProcessActorClass(actor_class.__ray_metadata__.modified_class)


def queue_settings() -> DictConfig:
    """TransferQueue's settings with its addresses, once tq.init has been called in this process."""
    return ray.get(interface._TQ_CONTROLLER.get_config.remote())


def join_queue(settings: DictConfig) -> None:
    """Connect this process to the TransferQueue of `queue_settings`, as verl does by the controller's name."""
    interface._maybe_create_tq_client(settings)
    transferqueue_utils.TQ_INITIALIZED = True
