"""Help of a Hydra program from the text of its YAML file: keys, defaults and comments, without verl and Hydra."""

import re
from pathlib import Path

# rl and verl.dph lie side by side, in a checkout and in site-packages.
CONFIG_DIR = Path(__file__).resolve().parents[2] / "verl" / "dph" / "config"
_INCLUDED = re.compile(r"^  - (\w+)$", re.MULTILINE)  # in the defaults list; those of verl lie elsewhere
_KEY = re.compile(r"(?P<indent> *)(?P<name>\w+):(?: (?P<value>.*))?")


def program_help(program: str, config: str, folder: Path = CONFIG_DIR) -> str:
    """Help text of the program with `folder/CONFIG.yaml`: what it and the files it includes add to verl or change.

    One KEY=DEFAULT per line under its comment; a mapping's comment stands above its first key. Hydra's own section and
    `_target_` are left out.
    """
    lines = (folder / f"{config}.yaml").read_text(encoding="utf-8").splitlines()
    description = [line.removeprefix("# ") for line in lines if line.startswith("#")][0]
    devices = ", ".join(sorted(path.stem for path in (folder / "device").glob("*.yaml")))
    head = [
        f"usage: {program} [KEY=VALUE ...] [--cfg job [--resolve]] [--help] [--help-all]",
        f"\n{description}\n\n--cfg job prints the composed configuration, --help-all every key of verl's too.",
        f"\n# Machine: {devices}. Without a GPU, the default is cpu.\ndevice=cuda",
    ]
    shared = [folder / f"{name}.yaml" for name in _INCLUDED.findall("\n".join(lines))]
    texts = [lines, *(file.read_text(encoding="utf-8").splitlines() for file in shared if file.is_file())]
    return "\n".join([*head, *(line for text in texts for line in documented_keys(text))]) + "\n"


def documented_keys(lines: list[str]) -> list[str]:
    """The comments and KEY=DEFAULT lines of a YAML file's text, with a blank line between groups."""
    shown: list[str] = []
    comment: list[str] = []
    keys: list[str] = []  # of the current line and of the mappings around it; two spaces of indentation each
    section = None
    for line in lines:
        if line.lstrip().startswith("#"):
            comment.append(line.strip())
        elif match := _KEY.fullmatch(line):
            keys[len(match["indent"]) // 2 :] = [match["name"]]
            if keys[0] in ("hydra", "defaults") or match["name"] == "_target_":
                comment = []
            elif match["value"] is not None:
                if comment or keys[:-1] != section:
                    shown.append("")
                shown += [*comment, f"{'.'.join(keys)}={match['value']}"]
                comment, section = [], keys[:-1]
        elif not line:
            # The file's own comment, which ends with a blank line or the first key.
            comment = [] if not keys else comment
    return shown
