"""The environment variables that are set and change nothing for a run."""

import re
from collections.abc import Iterable, Iterator, Mapping

from rl.configuration import methods
from rl.configuration.names import OWN_SCORER_VARIABLES
from rl.configuration.run import LAUNCHED, Run

_LAUNCH_NUMBER = re.compile(r"(?P<key>\w+): \$\{value:(?P<variable>[A-Z_]+),")
# Variables that the launcher reads itself, too.
_OF_THE_LAUNCHER = ("PYTHON", *LAUNCHED.values(), "SCORER_NODES", "DEVICE")


def ignored(run: Run, environment: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each set variable that changes nothing for this run."""
    given = {name for name, value in environment.items() if value}
    unread = methods.known_variables() & given - {*run.variables()}
    unused = {
        name: key for name, key in _numbers(run.experiment).items() if name in given and not _refers(run.parts(), key)
    }
    if "DPH_SCORER" in given:
        for name in sorted(given & {*OWN_SCORER_VARIABLES}):
            yield f"{name} is set, but DPH_SCORER names a scorer that runs already: it changes nothing."
    if run.method.launch["kind"] == methods.PREPARATION:
        return
    for name in sorted(given & {*run.variables()} - run.variables_in_effect() - {*_OF_THE_LAUNCHER}):
        yield (
            f"{name} is set, but the files of {run.method.name} and {run.experiment.name} have a value of their "
            "own in its place: it changes nothing."
        )
    of_methods = methods.methods(*methods.KINDS)
    for name, key in unused.items():
        readers = [method for method, file in of_methods.items() if _refers(file.parts, key)]
        if readers:
            yield f"{name} is set, but {run.method.name} does not use it: {', '.join(readers)} would."
    parts = {part.path: part for file in of_methods.values() for part in file.parts}.values()
    shared = {name for part in parts if part.path.parent.name == "base" for name in part.variables()}
    for name in sorted(unread - shared):
        readers = [method for method, file in of_methods.items() if any(name in p.variables() for p in file.parts)]
        if readers:
            yield f"{name} is set, but {run.method.name} does not read it: {', '.join(readers)} would."


def _numbers(experiment: methods.ConfigFile) -> dict[str, str]:
    """{variable: setting} of the experiment's numbers that methods refer to, such as CLIP_HIGH."""
    found = (_LAUNCH_NUMBER.match(line.strip()) for part in experiment.parts for line in part.lines)
    return {match["variable"]: match["key"] for match in found if match}


def _refers(parts: Iterable[methods.ConfigFile], key: str) -> bool:
    """Whether a file refers to a setting of the section `launch`."""
    reference = re.compile(rf"\blaunch\.{key}\b")
    return any(reference.search(line) for part in parts for line in part.lines)
