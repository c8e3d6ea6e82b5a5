"""The state of the git checkout that the code is in."""

import subprocess
from pathlib import Path
from typing import Any


def git_state(folder: Path) -> dict[str, Any] | None:
    """Revision of the checkout that contains `folder`, and whether tracked files differ; None without a checkout."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(folder), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # An installed copy may be inside the checkout of another project.
        git("ls-files", "--error-unmatch", str(folder))
        return {
            "revision": git("rev-parse", "HEAD"),
            "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
        }
    except (OSError, subprocess.CalledProcessError):
        return None
