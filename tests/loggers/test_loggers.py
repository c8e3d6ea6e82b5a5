"""Metrics of one real run arrive in every logger of trainer.logger, with the file logger's values."""

import re
from pathlib import Path

import pytest
from swanlab.converter.wb.wbdatastore import WBDataStoreReader
from swanlab.proto.swanlab.record.v1.record_pb2 import Record as SwanlabRecord
from swanlab.sdk.internal.core_python.store import DataStoreReader
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto.wandb_internal_pb2 import Record as WandbRecord

OF_VALIDATION = ("dph/keep_rate", "dph/newly_solved")
OF_TRAINING = ("dph/coefficient", "dph/divergence", "dph/loss", "dph/kl_ref_policy", "dph/epoch")
EXPECTED = {0: OF_VALIDATION, 1: OF_TRAINING + OF_VALIDATION, 2: OF_TRAINING + OF_VALIDATION}

Logged = dict[tuple[int, str], float]  # (step, metric) -> value

pytestmark = pytest.mark.timeout(600)


def one_file(folder: Path, pattern: str) -> Path:
    [file] = folder.glob(pattern)
    return file


def console(run) -> Logged:
    lines = re.findall(r"step:(\d+) - (.*)", run.output)
    pairs = [(int(step), *pair.rsplit(":", 1)) for step, line in lines for pair in line.split(" - ")]
    bare = re.compile(r"np\.\w+\((.*)\)")  # numbers are printed as np.float64(0.5)
    return {(step, name): float(bare.sub(r"\1", value)) for step, name, value in pairs if name.startswith("dph/")}


def tensorboard(run) -> Logged:
    events = EventAccumulator(str(run.folder / "tensorboard")).Reload()
    return {(event.step, name): event.value for name in events.Tags()["scalars"] for event in events.Scalars(name)}


def wandb(run) -> Logged:
    """From the transaction log that `wandb sync` uploads, read with the reader that swanlab has for it."""
    logged = {}
    with WBDataStoreReader() as reader:
        reader.open(one_file(run.folder, "wandb/offline-run-*/*.wandb"))
        while (data := reader.scan()) is not None:
            history = WandbRecord.FromString(data).history
            items = {item.key or "/".join(item.nested_key): item.value_json for item in history.item}
            logged |= {(history.step.num, key): float(items[key]) for key in items if key.startswith("dph/")}
    return logged


def swanlab(run) -> Logged:
    """From the log that `swanlab sync` uploads."""
    reader = DataStoreReader()
    reader.open(one_file(run.folder, "swanlab/run-*/*.swanlab"))
    try:
        records = [SwanlabRecord.FromString(data) for data in reader]
    finally:
        reader.close()
    scalars = [record.scalar for record in records if record.HasField("scalar")]
    return {(scalar.step, scalar.key): scalar.value.number for scalar in scalars}


@pytest.mark.parametrize("read", [console, tensorboard, wandb, swanlab])
def test_metrics_arrive(probed, read):
    logged = read(probed)
    tolerance = 1e-6 if read is tensorboard else 1e-12  # tensorboard's scalars are float32
    for step, names in EXPECTED.items():
        if step == 0 and read is console:
            continue  # printed as a dict before training starts
        for name in names:
            assert logged[step, name] == pytest.approx(probed.metrics[step][name], rel=tolerance, abs=0), (step, name)


def test_eta_is_warmed_up_and_weighs_the_divergence(probed):
    for step, eta in ((1, 0.05), (2, 0.1)):  # 0.2 s/4
        metrics = probed.metrics[step]
        assert metrics["dph/coefficient"] == pytest.approx(eta)
        # joint: of a mini-batch's 20 tokens, 2 x 4 x 2 on D_exp and 2 x 2 on D_pef, the D_pef tokens' share
        assert metrics["dph/loss"] == pytest.approx(eta * metrics["dph/divergence"] * 4 / 20, rel=1e-4)
        assert metrics["dph/divergence"] > 0
