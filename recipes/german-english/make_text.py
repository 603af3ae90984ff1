"""Write the training and validation text of the German-English model.

    python recipes/german-english/make_text.py FOLDER OUTPUT SHARE

FOLDER holds europarl-de-en, tatoeba-de-en and newstest-de-en; OUTPUT receives train.de, train.en,
valid.de and valid.en for the model, everyday.de and debates.de for its segmenter.  SHARE is how
much of Europarl is used, from 0 to 1; if that is most of it, all other text is made twice, with
different names and numbers.  The same folder always gives the same text.
"""

import gzip
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from random import Random

from clean import clean, normalise, normalise_target, tidy
from forms import Made, grouped, heard, without_end
from forms import in_order as running_text
from swap import swap
from templates import from_templates, to_copy

Pair = tuple[str, str]

SEED = 16
TEMPLATE_LINES = 220_000
COPY_LINES = 20_000
HEARD = 0.4  # of one in four everyday lines
VALIDATION_LINES = 1_000  # of each corpus
EVEN_SHARE = 0.55  # of Europarl, its last part: then half of the target words are everyday ones
HELD_OUT = (
    "tatoeba-de-en/dev.de",
    "europarl-de-en/dev.de",
    "newstest-de-en/newstest2013.de",
    "newstest-de-en/newstest2015.de",
)


def lines_of(path: Path) -> list[str]:
    """The lines of a plain or gzip file; only a line feed ends a line."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]


def pairs_of(stem: Path, ending: str = "") -> list[Pair]:
    """The pairs of two files whose names differ only in the language."""
    source, target = (
        lines_of(stem.parent / f"{stem.name}.{side}{ending}") for side in ("de", "en")
    )
    return list(zip(source, target, strict=True))


def everyday_pairs(folder: Path, held_out: frozenset[str]) -> list[Pair]:
    """The everyday sentences that may be used for a model that ships."""
    origins = lines_of(folder / "train.origin.gz")
    pairs = zip(pairs_of(folder / "train", ".gz"), origins, strict=True)
    tidied = (tidy(*pair) for pair, origin in pairs if origin == "anki")
    return [
        (source, target)
        for source, target in tidied
        if source and target and source not in held_out
    ]


def everyday(pairs: list[Pair], rng: Random) -> Iterator[Made]:
    """Every pair about seven times: as written, heard, joined, with other names and numbers."""
    for pair in pairs:
        source, target = pair
        yield "as written", source, target
        # Otherwise the model would know only the two people whom these sentences mention most.
        for _ in range(2):
            yield "as written", *(swap(pair, rng) if rng.random() < 0.5 else pair)
        other = swap(pair, rng) if rng.random() < 0.5 else pair
        is_heard = rng.random() < HEARD
        yield ("heard", heard(other[0]), other[1]) if is_heard else ("as written", *other)
        if rng.random() < 0.3:
            yield "no end", without_end(source), target
        other = swap(pair, rng)
        if other != pair:
            yield "swapped", *other
            if any(map(str.isdigit, source)):
                for _ in range(3):
                    yield "swapped", *swap(pair, rng)
    for _ in range(2):
        yield from grouped([swap(p, rng) if rng.random() < 0.5 else p for p in pairs], rng)


def write(made: Iterable[tuple[str, Made]], output: Path) -> dict[tuple[str, str], list[int]]:
    """Write the training text; count pairs, source and target words of each kind and form."""
    counts: dict[tuple[str, str], list[int]] = {}
    names = (output / "train.de", output / "train.en")
    german, english = (name.open("w", encoding="utf-8") for name in names)
    with german, english:
        for kind, (form, source, target) in made:
            if not source or not target:
                continue
            german.write(source + "\n")
            english.write(target + "\n")
            row = counts.setdefault((kind, form), [0, 0, 0])
            row[0] += 1
            row[1] += source.count(" ") + 1
            row[2] += target.count(" ") + 1
    return counts


def report(counts: dict[tuple[str, str], list[int]]) -> str:
    """A table of what was written."""
    total = sum(row[2] for row in counts.values())
    lines = [f"{'kind':10} {'form':16} {'pairs':>10} {'German':>12} {'English':>12} {'share':>6}"]
    kinds = Counter[str]()
    for (kind, form), (pairs, source, target) in sorted(counts.items()):
        kinds[kind] += target
        lines.append(
            f"{kind:10} {form:16} {pairs:10,} {source:12,} {target:12,} {target / total:6.1%}"
        )
    lines += [
        f"{kind:10} {'all':16} {words:36,} {words / total:6.1%}" for kind, words in kinds.items()
    ]
    sums = [sum(row[n] for row in counts.values()) for n in range(3)]
    lines.append(f"{'all':10} {'':16} {sums[0]:10,} {sums[1]:12,} {sums[2]:12,}")
    return "\n".join(lines)


def corpora(folder: Path, share: float) -> tuple[list[Pair], list[Pair | None]]:
    """The everyday pairs, and those of the debates in order."""
    held_out = frozenset(normalise(line) for name in HELD_OUT for line in lines_of(folder / name))
    dropped: Counter[str] = Counter()
    pairs = pairs_of(folder / "europarl-de-en/train", ".gz")
    debates = clean(pairs[-int(share * len(pairs)) :], held_out, dropped)
    print("europarl pairs:", ", ".join(f"{why} {n:,}" for why, n in dropped.most_common()))
    return everyday_pairs(folder / "tatoeba-de-en", held_out), debates


def training_text(
    short: list[Pair], debates: list[Pair | None], rounds: int
) -> Iterator[tuple[str, Made]]:
    """All lines of the training text, each with its kind; all but debates in every round."""
    for seed in range(SEED, SEED + 10 * rounds, 10):
        kinds = {
            "tatoeba": everyday(short, Random(seed)),
            "templates": from_templates(TEMPLATE_LINES, short, Random(seed + 1)),
            "copy": to_copy(COPY_LINES, short, Random(seed + 2)),
        }
        if seed == SEED:
            kinds["europarl"] = running_text(debates, Random(seed + 3))
        for kind, made in kinds.items():
            for line in made:
                yield kind, line


def sentences(pairs: Iterable[Pair | None], path: Path) -> None:
    """Write only the sources, one sentence per line: what the segmenter learns from."""
    path.write_text("".join(pair[0] + "\n" for pair in pairs if pair), encoding="utf-8")


def validation_text(folder: Path, output: Path) -> None:
    """Write the first lines of both development sets, one after the other."""
    for side, spelling in (("de", normalise), ("en", normalise_target)):
        files = [folder / name / f"dev.{side}" for name in ("tatoeba-de-en", "europarl-de-en")]
        lines = [line for file in files for line in islice(lines_of(file), VALIDATION_LINES)]
        text = "".join(spelling(line) + "\n" for line in lines)
        (output / f"valid.{side}").write_text(text, encoding="utf-8")


def main(folder: Path, output: Path, share: float) -> None:
    """Write all files and print what is in them."""
    output.mkdir(parents=True, exist_ok=True)
    validation_text(folder, output)
    short, debates = corpora(folder, share)
    sentences(short, output / "everyday.de")
    sentences(debates, output / "debates.de")
    rounds = max(1, round(share / EVEN_SHARE))
    print(report(write(training_text(short, debates, rounds), output)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
