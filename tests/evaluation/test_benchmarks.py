"""What is sampled on each split: the presets, splits of one's own, changed settings, and refusals."""

from dataclasses import replace

import pytest
from omegaconf import OmegaConf

from rl.common.errors import UserError
from rl.data.prepare.math import TEST_SETS
from rl.data.questions import answer_kind
from rl.evaluation.benchmarks import BENCHMARKS, SplitSettings, splits_of

OWN = SplitSettings(4, 0.9, 0.8, 50, max_prompt_length=100, max_response_length=200, greedy=False)


def config(tmp_path, **evaluate):
    settings = {"benchmarks": [], "splits": {}, "settings": {}, "data_folder": str(tmp_path), "n": 4, "greedy": False}
    return OmegaConf.create(
        {
            "evaluate": settings | evaluate,
            "actor_rollout_ref": {"rollout": {"temperature": 0.9, "top_p": 0.8, "top_k": 50}},
            "data": {"max_prompt_length": 100, "max_response_length": 200},
        }
    )


@pytest.fixture
def data(tmp_path):
    """A data folder with an empty file for every benchmark."""
    for benchmark in BENCHMARKS.values():
        for file in benchmark.files:
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).touch()
    return tmp_path


def test_presets_are_the_papers():
    """Appendix F.3 and the captions of Tables 1, 3, 4 and 8."""
    samples = {"bird": 16, "spider": 16, "aime24": 64, "aime25": 64, "amc23": 16}
    for name, benchmark in BENCHMARKS.items():
        settings = benchmark.settings
        assert settings.n == samples.get(name, 8) and settings.top_p == 0.95 and settings.top_k == -1
        is_sql = answer_kind(name) == "sql"
        assert (settings.temperature, settings.max_response_length) == ((1.0, 4096) if is_sql else (0.6, 2048))


def test_files_are_those_that_the_data_commands_write():
    for name, benchmark in BENCHMARKS.items():
        kind = answer_kind(name)
        assert benchmark.files == ((f"sql/{name}_dev.parquet",) if kind == "sql" else (f"math/{name}.parquet",))
        assert kind == "sql" or name in TEST_SETS


def test_benchmarks_and_splits_of_ones_own(data):
    splits = splits_of(config(data, benchmarks=["aime24", "bird"], splits={"mine": "a.parquet", "two": ["b", "c"]}))
    assert list(splits) == ["aime24", "bird", "mine", "two"]
    assert splits["bird"].files == (str(data / "sql" / "bird_dev.parquet"),)
    assert splits["bird"].settings == replace(BENCHMARKS["bird"].settings, greedy=False)
    assert splits["mine"].settings == splits["two"].settings == OWN
    assert (splits["mine"].files, splits["two"].files) == (("a.parquet",), ("b", "c"))


def test_one_benchmark_needs_no_list(data):
    assert list(splits_of(config(data, benchmarks="bird"))) == ["bird"]


def test_settings_of_one_split(data):
    changes = {"aime24": {"n": 8, "temperature": 1}, "mine": {"greedy": True, "max_response_length": 9}}
    splits = splits_of(config(data, benchmarks=["aime24", "bird"], splits={"mine": "a"}, settings=changes))
    assert splits["aime24"].settings == replace(BENCHMARKS["aime24"].settings, n=8, temperature=1, greedy=False)
    assert splits["mine"].settings == replace(OWN, greedy=True, max_response_length=9)
    assert splits["bird"].settings.n == 16


@pytest.mark.parametrize(
    ("evaluate", "sentence"),
    [
        ({"benchmarks": ["birds"]}, "evaluate.benchmarks has birds, which is unknown: use bird, spider, aime24"),
        ({"benchmarks": ["bird"], "data_folder": "none"}, "bird has no file none/sql/bird_dev.parquet: make it"),
        ({"benchmarks": ["bird"], "splits": {"bird": "a"}}, "bird is both among evaluate.benchmarks and"),
        ({"splits": {"a": "f"}, "settings": {"b": {"n": 1}}}, "evaluate.settings has b, which is no split here"),
        ({"splits": {"a": "f"}, "settings": {"a": 3}}, "evaluate.settings.a is 3: give a mapping"),
        ({"splits": {"a": "f"}, "settings": {"a": {"k": 1}}}, "a has k, which is unknown: use n, temperature"),
        ({"splits": {"a": "f"}, "settings": {"a": {"n": "8"}}}, "a.n is '8', not of the type int"),
        ({"splits": {"a": "f"}, "settings": {"a": {"n": True}}}, "a.n is True, not of the type int"),
        ({"splits": {"a": "f"}, "settings": {"a": {"n": 0}}}, "n of a is 0: it must be at least 1"),
        ({"splits": {"a": "f"}, "settings": {"a": {"max_prompt_length": 0}}}, "max_prompt_length of a is 0"),
        ({"splits": {"a": "f"}, "settings": {"a": {"top_p": 1.1}}}, "a would be sampled with temperature 0.9"),
        ({"splits": {"a": "f"}, "settings": {"a": {"temperature": -1}}}, "a would be sampled with temperature -1"),
        ({"splits": {"a": "f"}, "settings": {"a": {"temperature": 0}}}, "answers 4 times the same: set n to 1"),
    ],
)
def test_refusals(data, evaluate, sentence):
    with pytest.raises(UserError, match=sentence):
        splits_of(config(data, **evaluate))
