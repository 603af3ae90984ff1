"""Models on the Hugging Face hub, fetched only when named as `hf:user/name[@revision]`.

A bare `user/name` is a path: a mistyped directory must not become a stranger's model.
"""

import re
from pathlib import Path

from hmt.errors import UserError

PREFIX = "hf:"
_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")


def is_hub_name(name: str) -> bool:
    """Whether a name refers to the hub and not to a directory."""
    return name.startswith(PREFIX)


def fetch(name: str) -> Path:
    """The local copy of a model on the hub."""
    found = _NAME.fullmatch(name.removeprefix(PREFIX))
    if found is None:
        raise UserError(
            f"{name} is not a name on the hub: write hf:user/name or hf:user/name@revision."
        )
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError:
        raise UserError(f"{name} is on the hub: install hmt[hub] to load it.") from None
    try:
        return Path(snapshot_download(found[1], revision=found[2]))
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"{name} cannot be loaded from the hub ({reason}); check the name and the network."
        ) from None
