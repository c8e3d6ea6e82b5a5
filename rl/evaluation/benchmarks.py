"""What is sampled on each split: the paper's benchmarks with their settings, and splits of one's own.

The paper (Appendix F.3; captions of Tables 1, 3, 4 and 8): SQL at temperature 1.0, up to 4096 response tokens, Pass@8
and Pass@16; math at temperature .6, up to 2048, with as many samples as the k of its column; top-p .95 everywhere. The
length of prompts is that of training for SQL; for math the paper names none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from omegaconf import DictConfig

from rl.common.errors import UserError


@dataclass(frozen=True)
class SplitSettings:
    """How one split is sampled; evaluate.settings may change each."""

    n: int
    temperature: float
    top_p: float
    top_k: int
    max_prompt_length: int  # tokens
    max_response_length: int  # tokens
    greedy: bool


@dataclass(frozen=True)
class Split:
    """Data files and how their prompts are sampled."""

    files: tuple[str, ...]
    settings: SplitSettings


_SQL = SplitSettings(16, 1.0, 0.95, -1, max_prompt_length=16_000, max_response_length=4096, greedy=True)
_MATH = SplitSettings(8, 0.6, 0.95, -1, max_prompt_length=2048, max_response_length=2048, greedy=True)

# The files are those that the commands of docs/data.md write, below evaluate.data_folder.
BENCHMARKS = {
    "bird": Split(("sql/bird_dev.parquet",), _SQL),
    "spider": Split(("sql/spider_dev.parquet",), _SQL),
    "aime24": Split(("math/aime24.parquet",), replace(_MATH, n=64)),
    "aime25": Split(("math/aime25.parquet",), replace(_MATH, n=64)),
    "amc23": Split(("math/amc23.parquet",), replace(_MATH, n=16)),
    "math500": Split(("math/math500.parquet",), _MATH),
    "olympiadbench": Split(("math/olympiadbench.parquet",), _MATH),
    "minerva_math": Split(("math/minerva_math.parquet",), _MATH),
    "college_math": Split(("math/college_math.parquet",), _MATH),
}


def splits_of(config: DictConfig) -> dict[str, Split]:
    """evaluate.benchmarks, then evaluate.splits, each with its settings.

    Splits of one's own are sampled with evaluate.n, evaluate.greedy, actor_rollout_ref.rollout's temperature, top_p and
    top_k, and data's lengths. evaluate.settings changes any of these for one split or benchmark.

    Raises:
        UserError: an unknown benchmark or setting, a name that stands twice, or a value that cannot be sampled with.
    """
    evaluate, rollout = config.evaluate, config.actor_rollout_ref.rollout
    own = SplitSettings(
        n=evaluate.n,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        max_prompt_length=config.data.max_prompt_length,
        max_response_length=config.data.max_response_length,
        greedy=evaluate.greedy,
    )
    folder = Path(evaluate.data_folder).expanduser()
    names = [evaluate.benchmarks] if isinstance(evaluate.benchmarks, str) else evaluate.benchmarks
    splits = {name: _benchmark(name, folder, greedy=evaluate.greedy) for name in names}
    for name, files in evaluate.splits.items():
        if name in splits:
            raise UserError(f"{name} is both among evaluate.benchmarks and evaluate.splits: name the split otherwise.")
        splits[name] = Split((files,) if isinstance(files, str) else tuple(files), own)
    for name, changes in evaluate.settings.items():
        if name not in splits:
            raise UserError(f"evaluate.settings has {name}, which is no split here: use {', '.join(splits)}.")
        splits[name] = replace(splits[name], settings=_changed(name, splits[name].settings, changes))
    for name, split in splits.items():
        _require_possible(name, split.settings)
    return splits


def _benchmark(name: str, folder: Path, greedy: bool) -> Split:
    if name not in BENCHMARKS:
        raise UserError(f"evaluate.benchmarks has {name}, which is unknown: use {', '.join(BENCHMARKS)}.")
    preset = BENCHMARKS[name]
    files = tuple(str(folder / file) for file in preset.files)
    for file in files:
        if not Path(file).is_file():
            raise UserError(
                f"The benchmark {name} has no file {file}: make it (docs/data.md), or set evaluate.data_folder."
            )
    return Split(files, replace(preset.settings, greedy=greedy))


def _changed(name: str, settings: SplitSettings, changes: Mapping) -> SplitSettings:
    known = {field.name: field.type for field in fields(SplitSettings)}
    if not isinstance(changes, Mapping):
        raise UserError(f"evaluate.settings.{name} is {changes!r}: give a mapping such as {{n: 8, temperature: 0.6}}.")
    for key, value in changes.items():
        if key not in known:
            raise UserError(f"evaluate.settings.{name} has {key}, which is unknown: use {', '.join(known)}.")
        allowed = (int, float) if known[key] is float else (known[key],)
        if type(value) not in allowed:
            raise UserError(f"evaluate.settings.{name}.{key} is {value!r}, not of the type {known[key].__name__}.")
    return replace(settings, **changes)


def _require_possible(name: str, settings: SplitSettings) -> None:
    for key in ("n", "max_prompt_length", "max_response_length"):
        if getattr(settings, key) < 1:
            raise UserError(f"{key} of {name} is {getattr(settings, key)}: it must be at least 1.")
    if not 0 < settings.top_p <= 1 or settings.temperature < 0:
        raise UserError(
            f"{name} would be sampled with temperature {settings.temperature} and top_p {settings.top_p}: the first "
            "must not be negative, the second above 0 and at most 1."
        )
    if settings.temperature == 0 and settings.n > 1:
        raise UserError(f"{name} has temperature 0, which answers {settings.n} times the same: set n to 1.")
