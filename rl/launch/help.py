"""--help of a launch script: its usage, its method, and every variable with its current value."""

import re
from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf

from rl.configuration.run import Run
from rl.configuration.variables import raw, variable_of


def help_text(run: Run) -> str:
    """Usage, description, and variables below the comments of their files: the method's first, the cluster's last."""
    values = dict(_values(run.settings_of_files()))
    shown, seen = [run.usage, "", run.method.description, ""], set[str]()
    shown.append("Settings, as environment variables, with their current values:")
    for file in sorted(run.parts(), key=lambda part: part.name == "cluster"):
        for comment, names in file.paragraphs():
            # A method may fix a value that its parts read from a variable.
            new = [name for name in names if name in values and name not in seen]
            seen |= set(new)
            if new:
                shown += ["", *comment, *(f"  {name}={values[name]}" for name in new)]
    return "\n".join(shown) + "\n"


def _values(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Each variable's name, and its value as people write it."""
    for key, text in raw(config).items():
        if name := variable_of(text):
            yield name, _shown(OmegaConf.select(config, key))


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return re.sub(r"e-0", "e-", str(value))  # 1e-6, not 1e-06
    return str(value) if isinstance(value, str | int) else ",".join(map(str, value))  # type: ignore[call-overload]
