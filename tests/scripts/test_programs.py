"""What verl.dph's Hydra programs print for --help, and that Hydra leaves nothing behind."""

import sys

import pytest
from hydra import compose, initialize_config_dir, initialize_config_module
from omegaconf import DictConfig, OmegaConf

from rl.configuration.programs import program_help
from verl.dph.config.program import CONFIG_DIR, run_main

CONFIGS = ["dph_trainer", "presample", "evaluate"]


def keys_of(config: DictConfig) -> dict:
    """{dotted key: value}, interpolations unresolved; lists and empty mappings are values."""

    def walk(node, above):
        for key, value in node.items():
            if isinstance(value, dict) and value:
                yield from walk(value, [*above, key])
            else:
                yield ".".join([*above, key]), value

    return dict(walk(OmegaConf.to_container(config), []))


@pytest.fixture(scope="module")
def upstream() -> dict:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return keys_of(compose("ppo_trainer"))


@pytest.mark.parametrize("name", CONFIGS)
def test_help_lists_the_keys_that_differ_from_verl_s(name, upstream):
    with initialize_config_dir(str(CONFIG_DIR), version_base=None):
        ours = keys_of(compose(name))
    # What the device sets has a line of its own.
    of_device = keys_of(OmegaConf.load(CONFIG_DIR / "device" / "cuda.yaml"))
    different = {key for key, value in ours.items() if upstream.get(key, ...) != value and key not in of_device}
    lines = program_help("program", name).splitlines()
    listed = {line.partition("=")[0] for line in lines if "=" in line and not line.startswith(("#", "usage"))}
    assert {key for key in different if not key.endswith("._target_")} <= listed
    assert listed <= {*ours, "device"} and len(lines) < 300
    assert "device=cuda" in lines
    assert "# Machine: cpu, cpu_vllm, cuda, cuda_hf. Without a GPU, the default is cpu." in lines


@pytest.mark.parametrize("name", CONFIGS)
def test_help_and_a_run_write_no_file(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    seen = []

    def job(config):
        seen.append(config.trainer.nnodes)

    monkeypatch.setattr(sys, "argv", ["program", "--help", "trainer.nnodes=3"])
    run_main(job, name)
    assert not seen and capsys.readouterr().out.startswith("usage: python -m verl.dph.")
    monkeypatch.setattr(sys, "argv", ["program", "--help-all"])
    with pytest.raises(SystemExit):
        run_main(job, name)
    assert not seen and "ppo_mini_batch_size" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["program", "trainer.nnodes=3"])
    run_main(job, name)
    assert seen == [3] and not list(tmp_path.iterdir())
