"""A registration that waits for a module's import."""

import importlib
import sys

import pytest

from verl.dph.cpu.after_import import after_import


@pytest.fixture
def module_name(tmp_path, monkeypatch):
    name = "module_that_somebody_waits_for"
    (tmp_path / f"{name}.py").write_text("state = ['imported']\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_callback_runs_once_and_after_the_import(module_name):
    after_import(module_name, lambda: sys.modules[module_name].state.append("called"))
    assert module_name not in sys.modules
    module = importlib.import_module(module_name)
    assert module.state == ["imported", "called"]
    assert importlib.import_module(module_name).state == ["imported", "called"]
    assert module.__spec__.loader is module.__loader__
    assert module.__spec__.loader.get_source(module_name) == "state = ['imported']\n"


def test_callback_runs_at_once_for_an_imported_module(module_name):
    module = importlib.import_module(module_name)
    after_import(module_name, lambda: module.state.append("called"))
    assert module.state == ["imported", "called"]


def test_an_error_in_the_callback_fails_the_import(module_name):
    def fail():
        raise RuntimeError("registration failed")

    after_import(module_name, fail)
    with pytest.raises(RuntimeError, match="registration failed"):
        importlib.import_module(module_name)
