"""--help of a launch script: its usage, its method, and every variable with its current value."""

import textwrap

from omegaconf import DictConfig

from rl.configuration.methods import ConfigFile
from rl.configuration.run import Run


def help_text(run: Run) -> str:
    """The variables stand under the comments of their files: the method's first, the cluster's last."""
    named = Run(run.script, run.method, run.experiment, ["trainer.experiment_name=NAME"])
    parts, seen = [run.usage, "", run.method.description, ""], set[str]()
    parts.append("Settings, as environment variables, with their current values:")
    last = [file for file in run.parts() if file.name == "cluster"]
    for file in [*(file for file in run.parts() if file not in last), *last]:
        for comment, names in _paragraphs(file):
            new = [name for name in names if name not in seen]
            seen |= set(new)
            if new:
                values = _values(named.composed)
                parts += ["", *comment, *(f"  {name}={values[name]}" for name in new)]
    return "\n".join(parts) + "\n"


def _paragraphs(file: ConfigFile) -> list[tuple[list[str], list[str]]]:
    """The comments of a file, and the variables below each."""
    found: list[tuple[list[str], list[str]]] = []
    variables = {f"{key}: ${{": name for name, key in file.variables().items()}
    previous = ""
    for line in file.lines:
        if line.lstrip().startswith("#"):
            if not previous.lstrip().startswith("#"):
                found.append(([], []))
            found[-1][0].append(textwrap.dedent(line).strip())
        for start, name in variables.items():
            if line.lstrip().startswith(start) and f":{name}," in line and found:
                found[-1][1].append(name)
        previous = line
    return found


def _values(config: DictConfig) -> dict[str, str]:
    """Every variable's value, as it would be written."""
    return {name: _shown(value) for name, value in _variables(config)}


def _variables(config: DictConfig):
    import re

    pattern = re.compile(r"\$\{(?:text|value|files|files_or_none):([A-Z][A-Z_]*),")
    for key in config:
        node = config._get_node(key)
        if isinstance(node, DictConfig) and not node._is_interpolation() and not node._is_none():
            yield from _variables(node)
        elif isinstance(text := node._value(), str) and (match := pattern.match(text)):
            yield match[1], config[key]


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, str | int | float):
        return str(value)
    words = [str(word) for word in value]  # type: ignore[attr-defined]
    return ",".join(words)
