"""Captions of a room into a file that grows, for a video player.

    python examples/live/captions.py aula talk.vtt &
    mpv --sub-file=talk.vtt recording.mkv

Whole cues are added, so the file is valid at any time.  A lost connection is resumed: the server
sends everything again, and what the file already has is left out.
"""

import argparse
import os
import time
import urllib.error
import urllib.request
from pathlib import Path

SECONDS = 2.0  # between two attempts


def follow(address: str, path: Path) -> bool:
    """Add what comes until the connection ends; False if there is no room (any more)."""
    request = urllib.request.Request(address)
    if token := os.environ.get("HMT_TOKEN"):
        request.add_header("Authorization", f"Bearer {token}")
    known = path.read_bytes() if path.exists() else b""
    try:
        with urllib.request.urlopen(request, timeout=60) as answer, path.open("ab") as file:
            while part := answer.read1():
                if not known.startswith(part[: len(known)]):
                    raise SystemExit(f"{path} has other captions; name another file.")
                new, known = part[len(known) :], known[len(part) :]
                file.write(new)
                file.flush()
    except urllib.error.HTTPError as error:
        return error.code not in (403, 404)
    except OSError:
        pass  # gone for now
    return True


def main() -> None:
    """Follow a room until it is closed."""
    parser = argparse.ArgumentParser(description="Write the captions of a room into a file.")
    parser.add_argument("room")
    parser.add_argument("file", type=Path, help="NAME.vtt, NAME.srt or NAME.txt")
    parser.add_argument("--server", default="http://127.0.0.1:8765")
    options = parser.parse_args()
    kind = options.file.suffix.lstrip(".")
    address = f"{options.server}/v1/rooms/{options.room}/captions.{kind}?follow=1"
    while follow(address, options.file):
        time.sleep(SECONDS)


if __name__ == "__main__":
    main()
