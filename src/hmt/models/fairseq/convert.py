"""`hmt convert fairseq`: a checkpoint of the HMT authors' code, or of fairseq's own Transformer."""

import logging
from pathlib import Path
from typing import Any

from torch import Tensor

from hmt.errors import UserError
from hmt.files import drafting, read_text, refuse_occupied
from hmt.models.directory import CONFIG, LANGUAGE, Card, ModelConfig, describe, write_model
from hmt.models.fairseq.checkpoint import Checkpoint, read_checkpoint
from hmt.models.fairseq.weights import Weights, check_supported, transformer
from hmt.models.outline import outline
from hmt.models.weights import check_fit, fill
from hmt.systems import build
from hmt.systems.contract import System
from hmt.text.language_pair import Tokenizers, files_of
from hmt.text.symbols import SPECIALS
from hmt.text.tokenizer import Tokenizer, bpe_tokenizer_from_codes, word_tokenizer

log = logging.getLogger(__name__)

# Row 0 means "do not select", row 1 "select"; its input is [hidden : mean of the encoded source].
SELECTION = "decoder.transition_proj.weight"
# Settings in which wait-k models of that time store their k.
LAGS = ("waitk_lagging", "waitk")
OVERWRITES = " #fairseq:overwrite"
CAUSAL = (
    "hmt reads the source causally: each source token sees only those before it. A checkpoint "
    "trained with fairseq's own bidirectional encoder can be imported but will translate badly; "
    "a checkpoint does not record which encoder it was trained with."
)


def convert_fairseq(
    checkpoint: str | Path,
    source_dict: str | Path,
    target_dict: str | Path,
    output: str | Path,
    bpe_codes: str | Path | None = None,
) -> None:
    """Turn a fairseq checkpoint and its dictionaries into the model directory `output`."""
    output = Path(output)
    refuse_occupied(output)
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
    is_causal = SELECTION in found.tensors
    if not is_causal:
        log.warning(CAUSAL)
    card = _card(output, found, is_causal, bpe_codes is not None)
    with drafting(output, last=CONFIG) as draft:
        write_model(draft, system, _describe(system, found), files_of(tokenizers), card)


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
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    check_fit(outline(name, config), shapes, str(checkpoint.path))
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
    text = read_text(path)
    if not text:
        raise UserError(f"The dictionary {path} is empty; give the dict.txt of fairseq-preprocess.")
    symbols = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        symbol, _, count = line.rstrip().removesuffix(OVERWRITES).rpartition(" ")
        if not symbol or not count.isdecimal():
            raise UserError(
                f'Line {number} of {path} is not "symbol count"; give the dict.txt '
                "that fairseq-preprocess wrote."
            )
        symbols.append(symbol)
    # Some tools write the special symbols into the file too.
    return symbols[4:] if tuple(symbols[:4]) == SPECIALS else symbols


def make_tokenizers(dictionaries: tuple[list[str], list[str]], codes: Path | None) -> Tokenizers:
    """Word vocabularies, or pieces by subword-nmt's codes; one object if both sides are equal."""
    lines = None if codes is None else read_text(codes).split("\n")

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
    dims = system.transformers[0].dims
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


def _describe(system: System, checkpoint: Checkpoint) -> ModelConfig:
    """The configuration of an imported system, with the languages if the checkpoint names them."""
    facts: dict[str, Any] = {"imported_from": "fairseq", "checkpoint": checkpoint.path.name}
    if checkpoint.updates is not None:
        facts["updates"] = checkpoint.updates
    languages = tuple(checkpoint.settings.get(key) for key in ("source_lang", "target_lang"))
    are_codes = all(isinstance(code, str) and LANGUAGE.fullmatch(code) for code in languages)
    return describe(system, languages=languages if are_codes else None, facts=facts)


def _card(output: Path, checkpoint: Checkpoint, is_causal: bool, has_codes: bool) -> Card:
    updates = "" if checkpoint.updates is None else f" after {checkpoint.updates:,} updates"
    text = "text: tokenised as for training" + (
        "" if has_codes else ", in the dictionary's symbols"
    )
    return Card(
        output,
        f"imported by `hmt convert fairseq` from `{checkpoint.path.name}`{updates}",
        (text,) if is_causal else (text, CAUSAL),
    )
