"""A running Ray that is joined: what its processes get from this one."""

from omegaconf import OmegaConf

from verl.dph.sampling.ray_cluster import join_running, task_runner_options


def test_the_keys_of_services_reach_the_loggers_and_not_the_settings(monkeypatch):
    for name, value in {"WANDB_API_KEY": "secret", "SWANLAB_MODE": "local", "DPH_HEAD": "10.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    on_head = {"resources": {"node:10.0.0.1": 0.001}}
    assert task_runner_options() == on_head  # the run's own Ray inherits this environment
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    options = task_runner_options()
    variables = options.pop("runtime_env")["env_vars"]
    assert options == on_head and {"WANDB_API_KEY": "secret", "SWANLAB_MODE": "local"}.items() <= variables.items()
    assert all(name.startswith(("WANDB_", "SWANLAB_")) for name in variables)
    config = OmegaConf.create({"ray_kwargs": {"ray_init": {"num_cpus": 2}}})
    join_running(config)
    assert "secret" not in OmegaConf.to_yaml(config)
