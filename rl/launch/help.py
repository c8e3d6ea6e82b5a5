"""--help of a launch script: its usage, its method, and every variable with its current value."""

import re
from collections.abc import Iterator

from omegaconf import OmegaConf

from rl.configuration.run import Run
from rl.configuration.variables import raw, variable_of


def help_text(run: Run) -> str:
    """Usage, description, and variables below the comments of their files: the method's first, the cluster's last."""
    values = dict(_values(run))
    files = sorted(run.parts(), key=lambda part: part.name == "cluster")
    paragraphs = [paragraph for file in files for paragraph in file.paragraphs()]
    # Of several files that read a variable, the last one with a comment says what it is: it is the most general.
    place: dict[str, int] = {}
    for number, (comment, names) in enumerate(paragraphs):
        place |= {name: number for name in names if comment or name not in place}
    shown, bare = [run.usage, "", run.method.description, ""], False
    shown.append("Settings, as environment variables, with their current values:")
    for number, (comment, names) in enumerate(paragraphs):
        # A method may fix a value that its parts read from a variable.
        if here := [name for name in names if name in values and place[name] == number]:
            shown += [*([] if bare and not comment else [""]), *comment, *(f"  {name}={values[name]}" for name in here)]
            bare = not comment
    return "\n".join(shown) + "\n"


def _values(run: Run) -> Iterator[tuple[str, str]]:
    """Each variable's name, and its value as people write it; the command line decides over the variable."""
    config = run.settings_of_files()
    given = dict(word.lstrip("+").split("=", 1) for word in run.given if "=" in word)
    for key, text in raw(config).items():
        if name := variable_of(text):
            yield name, given.get(key, _shown(OmegaConf.select(config, key)))


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return re.sub(r"e-0", "e-", str(value))  # 1e-6, not 1e-06
    return str(value) if isinstance(value, str | int) else ",".join(map(str, value))  # type: ignore[call-overload]
