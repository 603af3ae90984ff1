"""The prepared data of a run, and the fingerprint that identifies it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hmt.errors import UserError
from hmt.text.corpus import Corpus, check_ids, checked_digests
from hmt.text.language_pair import Tokenizers, open_tokenizers, tokenizer_files
from hmt.training.recipe import Recipe


@dataclass(frozen=True)
class RunData:
    """Both splits, the tokenizers, and a fingerprint of their content, wherever they are stored."""

    train: Corpus
    valid: Corpus | None  # only if the recipe validates
    tokenizers: Tokenizers
    files: dict[str, bytes]  # the raw tokenizer files
    fingerprint: str  # of tokenizers and lengths
    digests: dict[str, str]  # of the files that were opened, by name

    @property
    def identity(self) -> tuple[str, dict[str, str]]:
        return self.fingerprint, self.digests


def open_data(recipe: Recipe) -> RunData:
    """Open the data that `hmt prepare` wrote."""
    directory = Path(recipe.data.directory)
    validates = any(stage.training.validate_every for stage in recipe.stages)
    train = Corpus.open(directory, "train")
    valid = Corpus.open(directory, "valid") if validates else None
    digests = checked_digests(directory, ["train", "valid"] if validates else ["train"])
    files = tokenizer_files(directory)
    digest = hashlib.blake2b(digest_size=16)
    for name, content in files.items():
        digest.update(name.encode() + content)
    for lengths in (train.source_lengths, train.target_lengths):
        digest.update(np.ascontiguousarray(lengths, dtype="<i4").tobytes())
    tokenizers = open_tokenizers(directory)
    sizes = tokenizers[0].size, tokenizers[1].size
    for split, corpus in {"train": train, "valid": valid}.items():
        if corpus is not None:
            check_ids(directory, split, corpus, sizes)
    return RunData(train, valid, tokenizers, files, digest.hexdigest(), digests)


def check_vocabulary(directory: Path, files: dict[str, bytes]) -> None:
    """Refuse weights that were trained with other token ids."""
    if (theirs := tokenizer_files(directory)) and theirs != files:
        raise UserError(
            f"{directory} was trained with another tokenizer than this data: prepare the data with "
            f"the tokenizer of {directory}, or drop it from the recipe."
        )
