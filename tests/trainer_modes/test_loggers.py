"""Metrics of one real run arrive in every logger of trainer.logger, with the file logger's values."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from swanlab.converter.wb.wbdatastore import WBDataStoreReader
from swanlab.proto.swanlab.record.v1.record_pb2 import Record as SwanlabRecord
from swanlab.sdk.internal.core_python.store import DataStoreReader
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto.wandb_internal_pb2 import Record as WandbRecord

from tests.tiny_run import metrics_of
from tests.trainer_modes.conftest import STEPS, TAGS

OF_VALIDATION = ("dph/val_accuracy", "dph/val/sql/pass@1")
OF_REHEARSAL = ("dph/coefficient", "dph/divergence", "dph/loss", "dph/kl_ref_policy", "dph/epoch")
OF_TRAINING = ("dph/pass@1", *OF_REHEARSAL)
EXPECTED = {1: OF_TRAINING, STEPS: OF_TRAINING + OF_VALIDATION}

Logged = dict[tuple[int, str], float]  # (step, metric) -> value

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def one_file(folder: Path, pattern: str) -> Path:
    [file] = folder.glob(pattern)
    return file


def console(run) -> Logged:
    lines = re.findall(r"step:(\d+) - (.*)", (run / "said").read_text())
    pairs = [(int(step), *pair.rsplit(":", 1)) for step, line in lines for pair in line.split(" - ")]
    bare = re.compile(r"np\.\w+\((.*)\)")  # numbers are printed as np.float64(0.5)
    return {(step, name): float(bare.sub(r"\1", value)) for step, name, value in pairs if name.startswith("dph/")}


def tensorboard(run) -> Logged:
    events = EventAccumulator(str(run / "tensorboard")).Reload()
    return {(event.step, name): event.value for name in events.Tags()["scalars"] for event in events.Scalars(name)}


def wandb_records(run) -> Iterator[WandbRecord]:
    """The transaction log that `wandb sync` uploads, read with the reader that swanlab has for it."""
    with WBDataStoreReader() as reader:
        reader.open(one_file(run, "wandb/offline-run-*/*.wandb"))
        while (data := reader.scan()) is not None:
            yield WandbRecord.FromString(data)


def wandb(run) -> Logged:
    logged = {}
    for record in wandb_records(run):
        items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
        logged |= {(record.history.step.num, key): float(items[key]) for key in items if key.startswith("dph/")}
    return logged


def swanlab_records(run) -> list[SwanlabRecord]:
    """The log that `swanlab sync` uploads."""
    reader = DataStoreReader()
    reader.open(one_file(run, "swanlab/run-*/*.swanlab"))
    try:
        return [SwanlabRecord.FromString(data) for data in reader]
    finally:
        reader.close()


def swanlab(run) -> Logged:
    scalars = [record.scalar for record in swanlab_records(run) if record.HasField("scalar")]
    return {(scalar.step, scalar.key): scalar.value.number for scalar in scalars}


@pytest.fixture(scope="session")
def logged_run(training, masked) -> Path:
    return training.folder / "masked"


@pytest.mark.parametrize("read", [console, tensorboard, wandb, swanlab])
def test_metrics_arrive(logged_run, read):
    logged, expected = read(logged_run), metrics_of(logged_run / "metrics")
    tolerance = 1e-6 if read is tensorboard else 1e-12  # tensorboard's scalars are float32
    for step, names in EXPECTED.items():
        for name in names:
            assert logged[step, name] == pytest.approx(expected[step][name], rel=tolerance, abs=0), (step, name)


def test_name_tags_and_settings_are_recorded(logged_run):
    [start] = [record.start for record in swanlab_records(logged_run) if record.HasField("start")]
    assert (start.project, start.name, tuple(start.tags)) == ("dph", "masked", TAGS)
    runs = [record.run for record in wandb_records(logged_run) if record.HasField("run")]
    assert (runs[0].project, runs[0].display_name, tuple(runs[0].tags)) == ("dph", "masked", TAGS)
    settings = {item.key: json.loads(item.value_json) for item in runs[0].config.update}
    assert settings["actor_rollout_ref"]["actor"]["sft_loss_mode"] == "js_low_var"
    [file] = logged_run.glob("swanlab/run-*/files/config.yaml")
    recorded = yaml.safe_load(file.read_text())["actor_rollout_ref"]
    assert recorded.get("value", recorded)["actor"]["sft_loss_mode"] == "js_low_var"


def test_nothing_is_written_outside_the_runs_folder(training, masked):
    assert not {"wandb", "swanlab", "swanlog", "tensorboard"} & {path.name for path in training.folder.iterdir()}
