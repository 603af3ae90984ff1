"""`hmt convert fairseq`: a checkpoint of the HMT authors' code, or of fairseq's own Transformer."""

import json
import logging
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from hmt.errors import UserError
from hmt.models.directory import CONFIG, fill, save_system, unshared
from hmt.models.fairseq.checkpoint import Checkpoint, read_checkpoint
from hmt.models.fairseq.weights import Weights, check_supported, transformer
from hmt.systems import build
from hmt.systems.contract import System
from hmt.text.corpus import save_tokenizers
from hmt.text.symbols import SPECIALS
from hmt.text.tokenizer import Tokenizer, bpe_tokenizer_from_codes, word_tokenizer

log = logging.getLogger(__name__)

# Row 0 says "do not select", row 1 "select"; its input is [state : mean of the source states].
SELECTION = "decoder.transition_proj.weight"
# Settings under which wait-k models of that time keep their k.
LAGS = ("waitk_lagging", "waitk")
OVERWRITES = " #fairseq:overwrite"
CAUSAL = (
    "hmt reads the source causally: each source token sees only those before it. A checkpoint "
    "trained with fairseq's own bidirectional encoder can be imported but will translate badly; "
    "nothing in a checkpoint tells which encoder it was trained with."
)
CARD = """\
# {name}

A *{system}* model for simultaneous translation, imported by `hmt convert fairseq` from
`{checkpoint}`{updates}: {parameters:,} parameters, {source:,} source and {target:,} target symbols.

- languages: {languages}
- inference settings unless others are chosen: `{knobs}`
- text: {text}
{caution}
```
echo "words to translate" | hmt translate {name}
```
"""


def convert_fairseq(
    checkpoint: str | Path,
    source_dict: str | Path,
    target_dict: str | Path,
    output: str | Path,
    bpe_codes: str | Path | None = None,
) -> None:
    """Turn a fairseq checkpoint and its dictionaries into the model directory `output`."""
    output = Path(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(
            f"{output} already exists and is not an empty directory; name a new one for the model."
        )
    found = read_checkpoint(Path(checkpoint))
    check_supported(found)
    dictionaries = read_dictionary(Path(source_dict)), read_dictionary(Path(target_dict))
    system = import_system(found)
    _check_sizes(system, dictionaries, (Path(source_dict), Path(target_dict)), found.path)
    tokenizers = make_tokenizers(dictionaries, None if bpe_codes is None else Path(bpe_codes))
    if bpe_codes is None and any(_is_piece(s) for d in dictionaries for s in d):
        log.warning(
            "The dictionaries hold pieces of words, but no codes were given (--bpe-codes): text "
            "must be split into these pieces before it is translated, and comes out in pieces."
        )
    if SELECTION not in found.tensors:
        log.warning(CAUSAL)
    _write(output, found, system, tokenizers, bpe_codes is not None)


def import_system(checkpoint: Checkpoint) -> System:
    """The system that a checkpoint holds, with its weights."""
    weights = Weights(checkpoint)
    dims, tensors = transformer(weights)
    heads = checkpoint.whole("encoder_attention_heads", least=1)
    dims |= {"heads": heads, "dropout": checkpoint.fraction("dropout", 0.1)}
    config: dict[str, Any] = {
        "dims": dims,
        "label_smoothing": checkpoint.fraction("label_smoothing", 0.0),
    }
    name = "full"
    lag = next((k for k in map(checkpoint.settings.get, LAGS) if type(k) is int and k > 0), None)
    if SELECTION in weights:
        name = "hmt"
        config["lower"] = checkpoint.whole("first_read")
        config["states"] = checkpoint.whole("cands_per_token", least=1)
        tensors["selection.weight"] = selection(weights.take(SELECTION))
    elif lag is not None:
        name, config["k"] = "wait-k", lag
    weights.finish()
    system = build(name, config)
    fill(system, tensors, str(checkpoint.path))
    return system.eval()


def selection(rows: Tensor) -> Tensor:
    """A two-way softmax is a sigmoid of the difference. (2, 2D) -> (1, 2D)"""
    if rows.shape[0] != 2:
        raise UserError(f"{SELECTION} has {rows.shape[0]} rows; the authors' code has two.")
    away, towards = rows.double()
    difference: Tensor = (towards - away)[None].float()
    return difference


def read_dictionary(path: Path) -> list[str]:
    """Symbols of a fairseq dictionary file in order; its four special ones are implied. (V - 4,)"""
    symbols = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                entry = line.rstrip().removesuffix(OVERWRITES)
                symbol, _, count = entry.rpartition(" ")
                if not symbol or not count.isdecimal():
                    raise UserError(
                        f'Line {number} of {path} is not "symbol count"; give the dict.txt '
                        "that fairseq-preprocess wrote."
                    )
                symbols.append(symbol)
    except OSError as error:
        raise UserError(f"The dictionary {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UserError(f"The dictionary {path} is not UTF-8 text.") from None
    if not symbols:
        raise UserError(f"The dictionary {path} is empty.")
    # Some tools write the special symbols into the file too.
    return symbols[4:] if tuple(symbols[:4]) == SPECIALS else symbols


def make_tokenizers(
    dictionaries: tuple[list[str], list[str]], codes: Path | None
) -> tuple[Tokenizer, Tokenizer]:
    """Word vocabularies, or pieces by subword-nmt's codes; one object if both sides are equal."""
    lines: list[str] | None = None
    if codes is not None:
        try:
            lines = codes.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"The codes {codes} cannot be read as text: {error}.") from None

    def make(symbols: list[str]) -> Tokenizer:
        return (
            word_tokenizer(symbols) if lines is None else bpe_tokenizer_from_codes(lines, symbols)
        )

    source = make(dictionaries[0])
    return source, source if dictionaries[0] == dictionaries[1] else make(dictionaries[1])


def _is_piece(symbol: str) -> bool:
    return symbol.endswith("@@") or symbol.startswith("▁")


def _check_sizes(
    system: System, dictionaries: tuple[list[str], list[str]], files: tuple[Path, Path], path: Path
) -> None:
    dims = system.parts[0].dims
    sizes = dims.source_vocabulary, dims.target_vocabulary
    for side, symbols, file, rows in zip(
        ("source", "target"), dictionaries, files, sizes, strict=True
    ):
        if len(symbols) + 4 != rows:
            raise UserError(
                f"{file} has {len(symbols)} symbols, with the four special ones "
                f"{len(symbols) + 4}, but the {side} embedding of {path} has {rows} rows: give the "
                "dictionary that it was trained with."
            )
    if dims.share_embeddings and dictionaries[0] != dictionaries[1]:
        raise UserError(
            f"{path} has one embedding for both languages, but {files[0]} and {files[1]} differ; "
            "give the joint dictionary twice."
        )


def _write(
    output: Path,
    checkpoint: Checkpoint,
    system: System,
    tokenizers: tuple[Tokenizer, Tokenizer],
    has_codes: bool,
) -> None:
    """Make the directory beside its place, then put it there; the configuration last."""
    output = output.resolve()
    output.parent.mkdir(parents=True, exist_ok=True)
    draft = output.with_name(f".{output.name}.{os.getpid()}")
    facts: dict[str, Any] = {"imported_from": "fairseq", "checkpoint": checkpoint.path.name}
    if checkpoint.updates is not None:
        facts["updates"] = checkpoint.updates
    try:
        draft.mkdir()
        save_tokenizers(draft, tokenizers)
        card = _card(output.name, checkpoint, system, has_codes)
        (draft / "README.md").write_text(card, encoding="utf-8")
        save_system(draft, system, facts)
        if output.exists():  # and is empty: it may be the one the user stands in
            for file in sorted(draft.iterdir(), key=lambda file: file.name == CONFIG):
                file.replace(output / file.name)
            draft.rmdir()
        else:
            draft.replace(output)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _card(name: str, checkpoint: Checkpoint, system: System, has_codes: bool) -> str:
    dims, settings = system.parts[0].dims, checkpoint.settings
    languages = [settings.get(key) or "not told" for key in ("source_lang", "target_lang")]
    updates = checkpoint.updates
    return CARD.format(
        name=name,
        system=system.name,
        checkpoint=checkpoint.path.name,
        updates="" if updates is None else f" after {updates:,} updates",
        parameters=sum(tensor.numel() for tensor in unshared(system).values()),
        source=dims.source_vocabulary,
        target=dims.target_vocabulary,
        languages=" to ".join(map(str, languages)),
        knobs=json.dumps(asdict(system.knobs())),
        text="tokenised as for training" + ("" if has_codes else ", in the dictionary's symbols"),
        caution="" if system.name == "hmt" else f"\n{CAUSAL}\n",
    )
