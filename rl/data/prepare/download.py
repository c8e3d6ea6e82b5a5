"""Published files from the Hugging Face Hub, in its cache (HF_HOME)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rl.common.errors import UserError
from rl.data.benchmarks import HubFile


@dataclass(frozen=True)
class Input:
    """A file that rows are made from, and, where it was downloaded, the repository and commit that it is of."""

    path: Path
    repository: str | None = None
    commit: str | None = None


def download(wanted: Mapping[str, HubFile], *, then: str) -> dict[str, Input]:
    """Download the files that the cache does not hold.

    Args:
        wanted: by the name of the data set.
        then: what to do with files that were fetched by hand, for the error.

    Raises:
        UserError: a file is not to be had; the sentence names all of them and where they are.
    """
    import httpx
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return {name: _fetch(hub) for name, hub in wanted.items()}
    except (OSError, HfHubHTTPError, httpx.HTTPError) as error:  # offline mode is an OSError
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        places = ", ".join(f"{_url(hub)} ({name})" for name, hub in wanted.items())
        raise UserError(
            f"The Hugging Face Hub cannot be used ({reason}): fetch {places} where it can be, and {then}."
        ) from error


def _fetch(hub: HubFile) -> Input:
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, try_to_load_from_cache

    if not try_to_load_from_cache(hub.repository, hub.file, repo_type="dataset", revision=hub.revision):
        get_hf_file_metadata(_url(hub))  # fails at once without a network, where hf_hub_download tries for 25 s
    path = Path(hf_hub_download(hub.repository, hub.file, repo_type="dataset", revision=hub.revision))
    snapshot = path.parents[len(Path(hub.file).parts) - 1]  # the cache's folder of the commit
    return Input(path, hub.repository, snapshot.name)


def _url(hub: HubFile) -> str:
    from huggingface_hub import hf_hub_url

    return hf_hub_url(hub.repository, hub.file, repo_type="dataset", revision=hub.revision)
