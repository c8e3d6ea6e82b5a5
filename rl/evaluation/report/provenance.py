"""What a report was made with and from: commit, versions, commands, seeds."""

import platform
from importlib import metadata
from pathlib import Path

from rl.common.git_state import git_state
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.report.tables import sampling_seeds

PACKAGES = ("dph-rl", "verl", "torch", "transformers", "vllm", "numpy", "matplotlib")


def provenance(comparison: Comparison) -> dict[str, str]:
    """{what: texts} of the page's foot; the versions are those of the environment that writes the page."""
    spec = comparison.spec
    state = git_state(Path(__file__).parent)
    facts = {"Commit": state["revision"][:12] + (", with changes" if state["changed"] else "")} if state else {}
    if "seed" in spec.settings:
        facts["Training seed"] = str(spec.settings["seed"])
    facts["Sampling seeds"] = sampling_seeds(comparison)
    facts["Commands"] = "; ".join([*spec.commands, "dph report --spec spec.json --out . (this page)"])
    return facts | {"Versions": ", ".join(_versions())}


def _versions() -> list[str]:
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return found
