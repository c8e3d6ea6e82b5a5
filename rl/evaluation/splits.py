"""The splits of an evaluation and how each is sampled: presets for the paper's benchmarks, and custom splits.

The paper (Appendix F.3; captions of Tables 1, 3, 4 and 8) samples SQL at temperature 1.0 with up to 4096 response
tokens for Pass@8 and Pass@16, and math at temperature .6 with up to 2048 tokens and as many samples as the k of its
column. Top-p is .95 everywhere. SQL prompts may be as long as in training; the paper gives no limit for math.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pydantic.dataclasses
from omegaconf import DictConfig, OmegaConf
from pydantic import ConfigDict, Field, PositiveInt, ValidationError

from rl.common.errors import UserError
from rl.common.text import listed
from rl.configuration.names import GREEDY_TEMPERATURE
from rl.configuration.setting import TopK
from rl.data.benchmarks import BENCHMARKS, SQL
from rl.evaluation.spec import alike, first_error, split_name


@pydantic.dataclasses.dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
@dataclass(frozen=True)  # for type checkers without pydantic
class SplitSettings:
    """Sampling settings of one split; evaluate.settings may override each."""

    n: PositiveInt
    temperature: Annotated[float, Field(ge=0)]
    top_p: Annotated[float, Field(gt=0, le=1)]
    top_k: TopK
    max_prompt_length: PositiveInt  # tokens
    max_response_length: PositiveInt  # tokens
    greedy: bool

    def __post_init__(self):
        if self.temperature <= GREEDY_TEMPERATURE and self.n > 1:
            raise ValueError(f"temperature {self.temperature:g} gives the same response {self.n} times: set n to 1")


@dataclass(frozen=True)
class Split:
    """Data files and their sampling settings."""

    files: tuple[str, ...]
    settings: SplitSettings


_SQL = SplitSettings(16, 1.0, 0.95, -1, max_prompt_length=16_000, max_response_length=4096, greedy=True)
_MATH = SplitSettings(8, 0.6, 0.95, -1, max_prompt_length=2048, max_response_length=2048, greedy=True)

# Settings of one's own splits, by the last part of their names.
OF_OWN_SPLITS = (
    *("evaluate.n", "evaluate.greedy", "data.max_prompt_length", "data.max_response_length"),
    *(f"actor_rollout_ref.rollout.{name}" for name in ("temperature", "top_p", "top_k")),
)

PRESETS = {
    name: replace(_SQL if dataset.kind == SQL else _MATH, n=dataset.samples) for name, dataset in BENCHMARKS.items()
}


def splits_of(config: DictConfig) -> dict[str, Split]:
    """The splits of evaluate.benchmarks and evaluate.splits, in this order.

    Custom splits are sampled with evaluate.n, evaluate.greedy, the temperature, top_p and top_k of
    actor_rollout_ref.rollout, and the lengths of data. evaluate.settings overrides any of these for one split.
    """
    evaluate = config.evaluate
    own = {key.rpartition(".")[2]: OmegaConf.select(config, key) for key in OF_OWN_SPLITS}
    folder = Path(evaluate.data_folder).expanduser()
    named = [evaluate.benchmarks] if isinstance(evaluate.benchmarks, str) else evaluate.benchmarks
    found = {name: (_files(name, folder), asdict(PRESETS[name]) | {"greedy": evaluate.greedy}) for name in named}
    for name, files in evaluate.splits.items():
        if name in found:
            raise UserError(f"{name} is in both evaluate.benchmarks and evaluate.splits: rename the split.")
        found[name] = (_files_of(f"evaluate.splits.{name}", files), own)
    for name, changes in evaluate.settings.items():
        if name not in found:
            raise UserError(f"evaluate.settings has {name}, which is not a split of this run: use {', '.join(found)}.")
        if not isinstance(changes, Mapping):
            raise UserError(
                f"evaluate.settings.{name} is {changes!r}: give a mapping such as {{n: 8, temperature: 0.6}}."
            )
        found[name] = (found[name][0], found[name][1] | dict(changes))
    splits = {name: Split(files, _checked(name, settings)) for name, (files, settings) in found.items()}
    if same := alike({name: split_name(name) for name in splits}):
        raise UserError(f"The splits {listed(same)} have one name in the report: rename one of them.")
    return splits


def _files_of(key: str, value: Any) -> tuple[str, ...]:
    """One path or several."""
    files = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else ()
    if not files or not all(isinstance(file, str) and file for file in files):
        raise UserError(f"{key} is {value!r}: give a parquet file, or a list of them.")
    return tuple(str(Path(file).expanduser()) for file in files)


def _files(name: str, folder: Path) -> tuple[str, ...]:
    if name not in PRESETS:
        raise UserError(f"evaluate.benchmarks has {name}, which is unknown: use {', '.join(PRESETS)}.")
    file = folder / BENCHMARKS[name].file
    if not file.is_file():
        raise UserError(
            f"The benchmark {name} has no file {file}: prepare it (docs/howto/data.md), or set evaluate.data_folder."
        )
    return (str(file),)


def _checked(name: str, settings: dict[str, Any]) -> SplitSettings:
    try:
        return SplitSettings(**settings)
    except ValidationError as error:
        raise UserError(f"The settings of {name} cannot be used: {first_error(error)}.") from None
