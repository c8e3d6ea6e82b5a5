"""How the store is built: what the trainer's rollout servers and its training engine do, and in which order.

The programs are the real ones except the engines, which record their calls; tests/end_to_end has a real run.
"""

import asyncio
import contextlib
import json
import logging
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file

from rl.common.errors import UserError
from rl.configuration.compose import compose
from rl.data.rows import ids_of
from rl.data.sample_file import read_samples
from tests.sample_files import write_parquet
from tests.sampling.conftest import ANSWERS, shop_row
from tests.tiny_run import prepare
from verl.dph.pef import build
from verl.dph.pef.refinement import explored_files
from verl.dph.pef.store import Store
from verl.dph.sampling import job
from verl.dph.sampling.sampler import SamplingSettings

SAMPLES, SLEEPS, REFERENCE = "samples", "sleeps", "reference"


class RecordingTrainer:
    """What write_store uses of a trainer; `events` are the calls of its engines in their order."""

    def __init__(self, config, engine):
        self.config, self.events, self._engine = config, [], engine

    async def generate(self, *arguments, **keywords):
        self.events.append(SAMPLES)
        return await self._engine.generate(*arguments, **keywords)

    def reference_of(self, rows):
        self.events.append(REFERENCE)
        return [-torch.ones(len(row.response)) for row in rows]


def write(trainer: RecordingTrainer) -> None:
    """As the trainer's fit."""
    build.write_store(
        trainer.config,
        client=lambda: trainer,
        free_rollouts=lambda: trainer.events.append(SLEEPS),
        reference=trainer.reference_of,
    )


@pytest.fixture
def trainer(tmp_path, model_folder, scorer_server, seeded_engine, monkeypatch):
    """Makes the trainer of a run that writes pef.pt for 30 prompts, with some settings changed."""
    overrides = {
        "device": "cpu",
        "actor_rollout_ref.actor.generate_sft": True,
        "actor_rollout_ref.model.path": model_folder,
        "data.sft_files": write_parquet(tmp_path / "correct.parquet", *(shop_row(i) for i in range(30))),
        "data.sft_wrong_files": write_parquet(tmp_path / "wrong.parquet", shop_row(30)),
        "data.sft_pt": tmp_path / "pef.pt",
        "data.max_prompt_length": 16,
        "data.max_response_length": 3,
        "algorithm.adv_estimator": "grpo",
        "actor_rollout_ref.actor.use_dynamic_bsz": True,
        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz": True,
        "reward.custom_reward_function.reward_kwargs.scorer": scorer_server,
    }

    monkeypatch.setenv("VERL_PLATFORM", "cpu")

    def make(**changes) -> RecordingTrainer:
        settings = overrides | {f"data.{name}": value for name, value in changes.items()}
        config = compose("dph_trainer", [f"{key}={value}" for key, value in settings.items()])
        return RecordingTrainer(config, seeded_engine())

    return make


def test_what_the_engines_do_and_when(trainer, tmp_path, monkeypatch, caplog):
    """The rollout servers sleep while the reference is computed.

    vLLM's weights and cache would otherwise lie beside the forward pass: 72 of 80 GB with an 8B model on 8 GPUs.
    """

    def dies(*arguments, **keywords):
        raise KeyboardInterrupt

    killed = trainer()
    with monkeypatch.context() as patch:
        patch.setattr(build, "check_reference", dies)
        with pytest.raises(KeyboardInterrupt):
            write(killed)
    assert killed.events == [SAMPLES] * 30 + [SLEEPS, REFERENCE] and not (tmp_path / "pef.pt").exists()

    resumed = trainer()
    with caplog.at_level(logging.INFO):
        write(resumed)
    assert resumed.events == [SLEEPS, REFERENCE]  # of the rows that are computed again
    store = Store.load(str(tmp_path / "pef.pt"))
    assert 0 < len(store) < 30
    assert f"{len(store)} of {len(store)} rows had their log-probs in {tmp_path / 'pef.parts'}" in caplog.text

    before = (tmp_path / "pef.pt").read_bytes()
    idle = trainer()
    with caplog.at_level(logging.INFO):
        write(idle)
    assert idle.events == [] and "pef.pt is complete: nothing to do" in caplog.text
    assert (tmp_path / "pef.pt").read_bytes() == before


def test_prompts_that_fail_are_explored_or_left_out_and_the_split_stays(trainer, tmp_path):
    correct, wrong = str(tmp_path / "correct.parquet"), str(tmp_path / "wrong.parquet")
    all_prompts = write_parquet(tmp_path / "all.parquet", *(shop_row(i) for i in range(31)))
    before = Path(correct).read_bytes(), Path(wrong).read_bytes()
    explored = {"sft_files": correct, "train_files": [wrong]}
    assert explored_files(OmegaConf.create(explored)) == [wrong]  # an earlier version's store moved them
    writing = trainer()
    write(writing)
    assert (Path(correct).read_bytes(), Path(wrong).read_bytes()) == before
    failed = str(tmp_path / "correct.failed.parquet")
    rehearsed = {row.id for row in Store.load(str(tmp_path / "pef.pt")).rows}
    assert ids_of([Path(failed)]) == set(range(30)) - rehearsed != set()
    assert explored_files(OmegaConf.create(explored)) == [wrong, failed]
    assert explored_files(OmegaConf.create(explored | {"train_files": [wrong, failed]})) == [wrong, failed]
    for others in ([str(all_prompts)], [wrong, correct]):
        assert explored_files(OmegaConf.create(explored | {"train_files": others})) == others
    write(again := trainer())
    assert again.events == [] and explored_files(OmegaConf.create(explored)) == [wrong, failed]


def test_the_store_of_another_model_is_refused_before_an_engine_starts(trainer, tmp_path, model_folder):
    """Even if it holds exactly the prompts of this run, and so looks like this run's finished store."""
    write(trainer())
    other = shutil.copytree(model_folder, tmp_path / "other")
    weights = {name: weight * 2 for name, weight in load_file(other / "model.safetensors").items()}
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    of_other = trainer().config
    of_other.actor_rollout_ref.model.path = str(other)
    with pytest.raises(
        UserError, match="pef.pt was made with another model .*name another file in data.sft_pt .*or delete"
    ):
        prepare(of_other)
    prepare(trainer().config)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("actor_rollout_ref.rollout.top_p", 0.5, "drawn with top_p=1.0, and this run has 0.5: name another file"),
        ("actor_rollout_ref.rollout.top_k", 5, "drawn with rollout_top_k=-1, and this run has 5: name another file"),
        ("data.sft_seed", 2, "drawn with seed=1, and this run has 2: name another file"),
        ("data.max_response_length", 2, "drawn with max_response_length=3, and this run has 2: name another file"),
    ],
)
def test_the_store_of_samples_that_were_drawn_in_another_way_is_refused(trainer, key, value, sentence):
    write(trainer())
    config = trainer().config
    OmegaConf.update(config, key, value)
    with pytest.raises(UserError, match=f"pef.pt holds samples {sentence}"):
        prepare(config)


DRAWN = 4


@pytest.fixture
def presampled(trainer, tmp_path):
    """The samples of the pre-sampling of all 31 prompts, DRAWN each."""
    config = trainer().config
    rollout = config.actor_rollout_ref.rollout
    settings = SamplingSettings(DRAWN, rollout.temperature, rollout.top_p, rollout.top_k, 3, seed=5)
    files, path = [tmp_path / "correct.parquet", tmp_path / "wrong.parquet"], tmp_path / "0.jsonl"
    all_prompts = job.prepare(config, files=files, settings=settings, output=path)
    asyncio.run(job.draw(all_prompts, lambda: contextlib.nullcontext(trainer())))
    return path


def responses_of(path) -> dict[int, list[list[int]]]:
    found: dict[int, list[list[int]]] = {}
    for row in Store.load(str(path)).rows:
        found.setdefault(row.id, []).append(row.response.tolist())
    return found


def test_all_correct_samples_of_every_solved_prompt(trainer, presampled, tmp_path, caplog):
    files = {name: (tmp_path / f"{name}.parquet").read_bytes() for name in ("correct", "wrong")}
    expected: dict[int, list[list[int]]] = {}
    for record in sorted(read_samples(presampled), key=lambda record: record.sample):
        if record.acc and not record.truncated:
            expected.setdefault(record.id, []).append(record.response_ids)
    assert len(set(map(len, expected.values()))) > 1 and len(expected) < 31
    cut = sum(record.acc and record.truncated for record in read_samples(presampled))
    assert cut > 0  # correct before the limit came, but without an end

    solved = {"sft_samples": presampled, "sft_coverage": "solved", "sft_responses_per_prompt": "all"}
    writing = trainer(**solved)
    prepare(writing.config)
    with caplog.at_level(logging.INFO):
        write(writing)
    store = Store.load(str(tmp_path / "pef.pt"))
    assert SAMPLES not in writing.events
    assert responses_of(tmp_path / "pef.pt") == expected
    assert [row.id for row in store.rows] == sorted(row.id for row in store.rows)
    assert (store.meta["prompts"], store.meta["kept"], store.meta["coverage"]) == (31, len(expected), "solved")
    assert store.meta["dropped_truncated"] == cut
    assert f"holds {len(store)} responses to {len(expected)} prompts" in caplog.text
    # D_exp and D_pef stay what the split made of them.
    assert files == {name: (tmp_path / f"{name}.parquet").read_bytes() for name in files}

    again = trainer(**solved)
    write(again)
    assert again.events == []
    with pytest.raises(
        UserError, match="records samples=.*coverage=solved, .*, and this run would write one new sample of ea"
    ):
        write(trainer())
    with pytest.raises(UserError, match="responses_per_prompt=2.*name another file in data.sft_pt"):
        prepare(trainer(**solved | {"sft_responses_per_prompt": 2}).config)

    # It lacks the solved prompts of other files.
    with pytest.raises(
        UserError, match="records samples=.*prompt_ids=.*, and this run would write samples=.*prompt_ids"
    ):
        prepare(trainer(**solved | {"sft_wrong_files": "null"}).config)

    some = {"sft_pt": tmp_path / "some.pt", "sft_responses_per_prompt": 2, "sft_coverage": "mastered"}
    write(trainer(**solved | some))
    first_two = {id: responses[:2] for id, responses in expected.items() if id < 30}
    assert responses_of(tmp_path / "some.pt") == first_two


def test_all_samples_of_an_anchors_prompts(trainer, presampled, tmp_path):
    """Right and wrong ones of one file; those that were cut off are left out."""
    every = {"sft_samples": presampled, "sft_coverage": "all", "sft_responses_per_prompt": "all"}
    writing = trainer(**every, sft_wrong_files="null")
    prepare(writing.config)
    write(writing)
    expected: dict[int, list[list[int]]] = {}
    for record in sorted(read_samples(presampled), key=lambda record: (record.id, record.sample)):
        if record.id < 30 and not record.truncated:
            expected.setdefault(record.id, []).append(record.response_ids)
    assert responses_of(tmp_path / "pef.pt") == expected
    verdicts = {record.acc for record in read_samples(presampled) if not record.truncated}
    assert verdicts == {0, 1} and Store.load(str(tmp_path / "pef.pt")).meta["coverage"] == "all"


def test_samples_of_another_run_are_rejected(trainer, presampled, tmp_path):
    solved = {"sft_samples": presampled, "sft_coverage": "solved"}
    cut, metadata = presampled.read_bytes(), presampled.with_suffix(".meta.json")
    with pytest.raises(
        UserError, match=r"samples of another prompt with id (\d+) than .*correct.parquet row \1, or of another"
    ):
        others = (shop_row(i, prompt=[{"role": "user", "content": "which which which"}]) for i in range(30))
        write_parquet(tmp_path / "correct.parquet", *others)
        prepare(trainer(**solved).config)
    dated = trainer(**solved).config
    dated.actor_rollout_ref.model.custom_chat_template = "{{ strftime_now('%Y') }}"
    prepare(dated)  # its prompts have other texts every day
    presampled.write_bytes(b"".join(cut.splitlines(keepends=True)[:-1]))
    with pytest.raises(UserError, match=f"holds {31 * DRAWN - 1} of {31 * DRAWN} samples: re-run dph presample"):
        prepare(trainer(**solved).config)
    drawn_with, of_config = metadata.read_text(), json.loads(metadata.read_text())["config_hash"]
    metadata.write_text(drawn_with.replace(of_config, "0" * 64))
    with pytest.raises(UserError, match=f"drawn with config_hash={'0' * 64}, and this run has {of_config}"):
        prepare(trainer(**solved).config)
    metadata.write_text(drawn_with.replace('"temperature": 1.0', '"temperature": 0.6'))
    with pytest.raises(UserError, match=r"drawn with temperature=0.6, and this run has 1.0"):
        prepare(trainer(**solved).config)
    other = trainer(**solved).config
    other.actor_rollout_ref.rollout.update(temperature=0.6, top_k=5)
    with pytest.raises(UserError, match=r"drawn with top_k=-1, and this run has 5"):
        prepare(other)


def test_the_prompts_of_a_store_are_those_of_the_pre_sampling(trainer, presampled, tmp_path):
    solved = {"sft_samples": presampled, "sft_coverage": "solved"}
    without_the_first_five = write_parquet(tmp_path / "some.parquet", *(shop_row(i) for i in range(5, 30)))
    with pytest.raises(UserError, match=r"correct samples of \d prompts? outside .*some.parquet and .*wrong.parquet"):
        prepare(trainer(**solved, sft_files=without_the_first_five).config)
    of_near_perfect = {"sft_coverage": "mastered", "sft_responses_per_prompt": 2}
    prepare(trainer(**solved | of_near_perfect, sft_files=without_the_first_five).config)
    write_parquet(tmp_path / "wrong.parquet", shop_row(30), shop_row(31), shop_row(32))
    with pytest.raises(UserError, match=r"has no samples of 2 prompts in .*wrong.parquet \(the first has id 31"):
        prepare(trainer(**solved).config)


RIGHT, WRONG = ANSWERS[0], ANSWERS[2]
OWN_PROMPT = [{"role": "user", "content": "names names names"}]
# By id, by messages, by a text that several prompts have (there are five wordings), and to no prompt.
GIVEN = [
    {"id": 4, "response": RIGHT, "source": "teacher"},
    {"id": 4, "response": f"{RIGHT}<eos>", "source": "teacher"},
    {"id": 4, "response": RIGHT},
    {"id": 5, "response": WRONG, "source": "teacher"},
    {"id": 6, "response": RIGHT * 3},
    {"prompt": OWN_PROMPT, "response": RIGHT, "source": "expert"},
    {"id": 30, "response": RIGHT, "source": "late"},
    {"prompt": "which names prices", "response": RIGHT},
    {"prompt": "prices prices", "response": RIGHT},
    {"id": 77, "response": RIGHT},
    {"id": 7, "response": f"<eos>{RIGHT}"},
    {"id": 7, "response": f"<eos>{RIGHT}<eos>"},
]


def test_responses_from_elsewhere(trainer, tmp_path, caplog):
    write_parquet(tmp_path / "wrong.parquet", shop_row(30, prompt=OWN_PROMPT))
    path = tmp_path / "given.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in GIVEN))
    writing = trainer(sft_responses=path, sft_responses_per_prompt=2)
    prepare(writing.config)
    with caplog.at_level(logging.INFO):
        write(writing)
    store = Store.load(str(tmp_path / "pef.pt"))
    assert responses_of(tmp_path / "pef.pt") == {4: [[10, 1]] * 2, 30: [[10, 1]] * 2}
    assert SAMPLES not in writing.events
    counts = {name: count for name, count in store.meta.items() if name.startswith("dropped")}
    assert counts == {
        "dropped_unknown_prompt": 2,
        "dropped_ambiguous_prompt": 1,
        "dropped_special_tokens": 2,
        "dropped_too_long": 1,
        "dropped_not_correct": 1,
        "dropped_over_limit": 1,
    }
    assert store.meta["sources"] == "teacher: 2, expert: 1, late: 1" and "dropped_over_limit=1" in caplog.text
    assert sum(counts.values()) + len(store) == len(GIVEN)

    # It lacks the responses that were too long, and those to prompts of files that this run adds.
    given = {"sft_responses": path, "sft_responses_per_prompt": 2}
    for change, named in (
        ({"max_response_length": 4}, "max_response_length=3,.*max_response_length=4"),
        ({"max_prompt_length": 17}, "max_prompt_length=16,.*max_prompt_length=17"),
        ({"sft_wrong_files": "null"}, "prompt_ids=.*, and this run would write .*prompt_ids="),
    ):
        with pytest.raises(UserError, match=f"records responses=.*{named}.*: name another file in data.sft_pt"):
            write(trainer(**given | change))

    keys = ("id", "prompt", "response")
    table = [{key: row.get(key) for key in keys} for row in GIVEN if not isinstance(row.get("prompt"), list)]
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "given.parquet")
    unverified = {"sft_responses": tmp_path / "given.parquet", "sft_verify_responses": False}
    write(trainer(**unverified, sft_pt=tmp_path / "all.pt", sft_responses_per_prompt="all"))
    assert Counter({id: len(r) for id, r in responses_of(tmp_path / "all.pt").items()}) == {4: 3, 5: 1, 30: 1}
