"""Environment variables and the part `launch` of a composed configuration: checked, and replaced by their values."""

import os
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from omegaconf import DictConfig, OmegaConf, open_dict
from pydantic import Field

from rl.common.errors import UserError
from rl.configuration.names import joins_ray
from rl.configuration.programs import PROGRAMS
from rl.configuration.setting import Count, CountOrZero, Section, Seed, violations
from rl.configuration.variables import READ, VARIABLE, raw

# The section that only the launcher reads; programs do not see it.
LAUNCH = "launch"


class Launch(Section, at=LAUNCH):
    """The settings of `launch` to check: a wrong one would silently make other keys wrong, or is one of this node."""

    explored: Literal["exp", "all"]
    seed: Seed | None
    nodes: Count
    node_rank: CountOrZero | None
    wait_seconds: CountOrZero
    ray_port: Annotated[int, Field(ge=1, le=65_535)]  # all nodes must know it
    scorer_port: Annotated[int, Field(ge=0, le=65_535)]  # 0: any free one


_MODELS = ("actor_rollout_ref.model.path", "actor_rollout_ref.model.tokenizer_path", "critic.model.path")
# Files and folders: our settings with these types, and verl's.
_FILES = {
    *(key for sections in PROGRAMS.values() for section in sections for key in section.paths()),
    *(f"trainer.{name}" for name in ("default_local_dir", "validation_data_dir", "rollout_data_dir")),
    *("trainer.resume_from_path", "actor_rollout_ref.model.lora_adapter_path"),
    *("reward.custom_reward_function.path", "actor_rollout_ref.rollout.agent.agent_loop_config_path"),
}


def check_composed(config: DictConfig, sections: Iterable[type[Section]] = ()) -> None:
    """Reject wrong values of `launch`, unless settle has removed it, and of these sections: one line per value, which
    names the variable that gave it."""
    own: tuple[type[Section], ...] = (Launch,) if LAUNCH in config else ()
    # Other keys follow from `launch`.
    if sentences := [*_wrong(config, own)] or [*_wrong(config, sections)]:
        raise UserError("\n".join(sentences))


def _wrong(config: DictConfig, sections: Iterable[type[Section]]) -> Iterator[str]:
    """A sentence for each wrong value of the sections."""
    written = raw(config)
    for section in sections:
        for key, sentence in violations(config, section):
            if (variable := VARIABLE.search(str(written.get(key)))) and variable[1] in os.environ:
                sentence = sentence.replace(key, variable[1], 1)
            yield sentence


def settle(config: DictConfig) -> None:
    """Replace values that depend on variables or on `launch` with their results, and remove `launch`."""
    if LAUNCH in config:
        _replace(config)
    for key in _MODELS:  # verl asserts that the path of a model does not end in /
        path = OmegaConf.select(config, key)
        if isinstance(path, str) and path.endswith("/"):
            OmegaConf.update(config, key, path.rstrip("/") or "/")
    if joins_ray():
        _make_absolute(config)


def _make_absolute(config: DictConfig) -> None:
    """The processes of a Ray that runs already have its working folder, not this program's."""
    for key in (*_MODELS, *_FILES):
        found = OmegaConf.select(config, key)
        if isinstance(found, str):
            OmegaConf.update(config, key, absolute(found, key in _MODELS))
        elif OmegaConf.is_list(found):
            OmegaConf.update(config, key, [absolute(str(path)) for path in found])


def absolute(path: str, is_model: bool = False) -> str:
    """The absolute path; but a name on the Hugging Face Hub, a URL and the paper's "None" stay."""
    full = os.path.abspath(os.path.expanduser(path))
    return path if path in ("", "None") or "://" in path or (is_model and not os.path.isdir(full)) else full


def _replace(config: DictConfig) -> None:
    check_composed(config)
    for key, value in raw(config).items():
        if not key.startswith(f"{LAUNCH}.") and (f"${{{LAUNCH}." in str(value) or READ.search(str(value))):
            found = OmegaConf.select(config, key)
            OmegaConf.update(
                config, key, OmegaConf.to_container(found, resolve=True) if OmegaConf.is_config(found) else found
            )
    with open_dict(config):
        config.pop(LAUNCH)
