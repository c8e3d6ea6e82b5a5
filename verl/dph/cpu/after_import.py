"""Post-import hooks: call a function after a module is imported, so that registering does not import it."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _AfterImportFinder(MetaPathFinder):
    """Find the modules that have a hook, each once, and leave loading to the module's own loader."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Callable[[], None]] = {}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        callback = self.callbacks.pop(name, None)
        if callback is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallbackLoader(spec.loader, callback)
        return spec


class _CallbackLoader(Loader):
    def __init__(self, loader: Loader, callback: Callable[[], None]) -> None:
        self.loader = loader
        self.callback = callback

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # inspect and pickle look for a module's own loader
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.callback()


_finder = _AfterImportFinder()


def after_import(module_name: str, callback: Callable[[], None]) -> None:
    """Call `callback` once `module_name` has been imported: now if it has been, else at the end of its import.

    An error in the callback is an error of that import. A module has one callback: a later one replaces it.
    """
    if module_name in sys.modules:
        callback()
        return
    _finder.callbacks[module_name] = callback
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
