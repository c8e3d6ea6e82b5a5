"""Sampling settings per split: the presets, custom splits, overrides, and what is rejected."""

from dataclasses import replace

import pytest
from omegaconf import OmegaConf

from rl.common.errors import UserError
from rl.data.benchmarks import BENCHMARKS
from rl.data.questions import answer_kind
from rl.evaluation.splits import PRESETS, SplitSettings, splits_of

OWN = SplitSettings(4, 0.9, 0.8, 50, max_prompt_length=100, max_response_length=200, greedy=False)


def config(folder, **evaluate):
    settings = {"benchmarks": [], "splits": {}, "settings": {}, "data_folder": str(folder), "n": 4}
    return OmegaConf.create(
        {
            "evaluate": settings | {"greedy": False} | evaluate,
            "actor_rollout_ref": {"rollout": {"temperature": 0.9, "top_p": 0.8, "top_k": 50}},
            "data": {"max_prompt_length": 100, "max_response_length": 200},
        }
    )


@pytest.fixture
def data(tmp_path):
    """A data folder with an empty file for every benchmark."""
    for dataset in BENCHMARKS.values():
        (tmp_path / dataset.file).parent.mkdir(exist_ok=True)
        (tmp_path / dataset.file).touch()
    return tmp_path


def test_presets_are_the_papers():
    """Appendix F.3 and the captions of Tables 1, 3, 4 and 8; other SQL is sampled as the paper's."""
    samples = {"bird": 16, "spider": 16, "aime24": 64, "aime25": 64, "amc23": 16}
    samples |= dict.fromkeys(["math500", "olympiadbench", "minerva_math", "college_math"], 8)
    assert {name: PRESETS[name].n for name in samples} == samples
    assert list(PRESETS) == list(BENCHMARKS)
    for name, settings in PRESETS.items():
        assert (settings.top_p, settings.top_k) == (0.95, -1)
        is_sql = answer_kind(name) == "sql"
        assert settings.n == 16 or not is_sql
        assert (settings.temperature, settings.max_response_length) == ((1.0, 4096) if is_sql else (0.6, 2048))
        assert BENCHMARKS[name].file == (f"sql/{name}_dev.parquet" if is_sql else f"math/{name}.parquet")


def test_benchmarks_custom_splits_and_overrides(data):
    changes = {"aime24": {"n": 8, "temperature": 1}, "mine": {"greedy": True, "max_response_length": 9}}
    own = {"mine": "a.parquet", "two": ["b", "c"]}
    splits = splits_of(config(data, benchmarks=["aime24", "bird"], splits=own, settings=changes))
    assert list(splits) == ["aime24", "bird", "mine", "two"]
    assert splits["bird"].files == (str(data / "sql" / "bird_dev.parquet"),)
    assert splits["bird"].settings == replace(PRESETS["bird"], greedy=False)
    assert splits["aime24"].settings == replace(PRESETS["aime24"], n=8, temperature=1.0, greedy=False)
    assert splits["mine"].settings == replace(OWN, greedy=True, max_response_length=9)
    assert splits["two"].settings == OWN
    assert (splits["mine"].files, splits["two"].files) == (("a.parquet",), ("b", "c"))


@pytest.mark.parametrize(
    ("evaluate", "sentence"),
    [
        ({"benchmarks": ["birds"]}, "evaluate.benchmarks has birds, which is unknown: use bird, spider, aime24"),
        ({"benchmarks": ["bird"], "data_folder": "none"}, "bird has no file none/sql/bird_dev.parquet: prepare it"),
        ({"benchmarks": ["bird"], "splits": {"bird": "a"}}, "bird is in both evaluate.benchmarks and"),
        ({"splits": {"a": "f"}, "settings": {"b": {"n": 1}}}, "evaluate.settings has b, which is not a split"),
        ({"splits": {"a": "f"}, "settings": {"a": 3}}, "evaluate.settings.a is 3: give a mapping"),
        *(({"splits": {"a": files}}, r"evaluate.splits.a is .*: give a parquet") for files in (None, "", [3])),
        *(
            ({"splits": {"a": "f"}, "settings": {"a": changes}}, f"The settings of a cannot be used: {sentence}")
            for changes, sentence in (
                ({"temperature": 1e-7}, "temperature 1e-07 gives the same response 4 times: set n to 1"),
                ({"top_k": 0}, "top_k.*Input should be -1, but it has 0"),
            )
        ),
    ],
)
def test_what_is_rejected(data, evaluate, sentence):
    with pytest.raises(UserError, match=sentence):
        splits_of(config(data, **evaluate))
