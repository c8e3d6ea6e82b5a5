"""A running Ray that is joined: what its processes get from this one."""

import pytest
import ray
from omegaconf import OmegaConf

from rl.common.errors import UserError
from verl.dph.sampling import ray_cluster
from verl.dph.sampling.ray_cluster import check_shared_folder, join_running, services_variables, without


def test_the_keys_of_services_reach_the_loggers_and_not_the_settings(monkeypatch):
    given = {"WANDB_API_KEY": "secret", "SWANLAB_MODE": "local"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert services_variables() == {}  # the run's own Ray inherits this environment
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    variables = services_variables()
    assert given.items() <= variables.items() and all(name.startswith(("WANDB_", "SWANLAB_")) for name in variables)
    config = OmegaConf.create({"ray_kwargs": {"ray_init": {"num_cpus": 2}}})
    join_running(config)
    assert "secret" not in OmegaConf.to_yaml(config)


def test_nodes_that_do_not_share_a_folder_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_cluster, "SEEN_WITHIN_S", 0.0)
    ray.init(address="local", num_cpus=1, num_gpus=1, include_dashboard=False, log_to_driver=False)
    try:
        [node] = ray.nodes()
        assert without(str(tmp_path), [node]) == []
        absent = without(str(tmp_path / "absent"), [node, node])
        assert absent == [node["NodeManagerAddress"]] * 2
        monkeypatch.setattr(ray, "nodes", lambda: [node, node])
        check_shared_folder(tmp_path / "run", 2)
        assert not list((tmp_path / "run").iterdir())
        monkeypatch.setattr(ray_cluster, "without", lambda file, nodes: ["10.0.0.2"])
        with pytest.raises(UserError, match=f"default_local_dir={tmp_path} is another folder at 10.0.0.2, and"):
            check_shared_folder(tmp_path, 2)
        check_shared_folder(tmp_path, 1)  # one of the nodes trains
    finally:
        ray.shutdown()
