"""The tokenizers of a language pair, as files of a prepared directory or of a model directory."""

from pathlib import Path

from hmt.errors import UserError
from hmt.text.tokenizer import Tokenizer

SIDES = ("source", "target")
JOINT = "tokenizer.json"
SEPARATE = tuple(f"{side}.tokenizer.json" for side in SIDES)

Tokenizers = tuple[Tokenizer, Tokenizer]  # source, target


def open_tokenizers(directory: str | Path) -> Tokenizers:
    """Source and target tokenizer of a directory; the same object twice if they share one."""
    directory = Path(directory)
    if (directory / JOINT).exists():
        tokenizer = Tokenizer.load(directory / JOINT)
        return tokenizer, tokenizer
    source, target = (directory / name for name in SEPARATE)
    if not source.exists() and not target.exists():
        raise UserError(
            f"{directory} holds neither {JOINT} nor {' and '.join(SEPARATE)}; "
            "give a directory made by hmt prepare, or a model directory."
        )
    return Tokenizer.load(source), Tokenizer.load(target)


def tokenizer_files(directory: Path) -> dict[str, bytes]:
    """The raw tokenizer files of a directory, by name."""
    paths = (directory / name for name in (JOINT, *SEPARATE))
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def files_of(tokenizers: Tokenizers) -> dict[str, bytes]:
    """The contents of the file or files that `open_tokenizers` reads, by name."""
    source, target = tokenizers
    if source is target:
        return {JOINT: source.to_json().encode()}
    return {
        name: tokenizer.to_json().encode()
        for name, tokenizer in zip(SEPARATE, tokenizers, strict=True)
    }
