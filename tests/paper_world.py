"""A small world for `hmt paper`: toy text under the names of the benchmarks, tiny recipes."""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from hmt import toy
from hmt.cli import run as command
from hmt.cli.paper import Lines
from hmt.paper.known import together
from hmt.paper.markdown import write_markdown
from hmt.paper.page import write_page
from hmt.paper.parts import PARTS
from hmt.paper.parts.comparison import Comparison
from hmt.paper.plan import Ledger, Part, Place, Step, chosen, ordered
from hmt.paper.report import Report, build
from hmt.paper.running import run
from hmt.systems import SYSTEMS

RECIPE = """\
# Cost: about 2 minutes of one core.
output = "elsewhere"
data.directory = "elsewhere"
model.system = "{system}"
{more}

[model.config.dims]
width = 16
ffn = 16
heads = 2
encoder_layers = 1
decoder_layers = 1
share_embeddings = {shared}

[training]
updates = 4
batch_tokens = 400
warmup = 2
save_every = 2
keep = 2
average_last = 2
log_every = 2
threads = 1
"""
COMPOSED = """\
# Cost: about 5 seconds.
output = "elsewhere"
data.directory = "elsewhere"
model = {system = "adaptive", models = ["elsewhere"], knobs = {k_min = 1, k_max = 9}}
"""
HMT = "model.config.lower = [1, 3]\nmodel.config.states = 4"
LINE = [({"lower": 1}, 1.0, 30.0), ({"lower": 3}, 3.0, 34.0)]


def write_text(folder: Path, names: Sequence[str], ends: tuple[str, str], count: int) -> None:
    """Toy sentences under the names of a corpus; a name that ends in .gz is packed."""
    for seed, name in enumerate(names):
        plain = name.removesuffix(".gz")
        several = count if plain.startswith("train") else 6
        for path, end in zip(toy.write(folder, plain, several, seed), ends, strict=True):
            content = path.read_bytes()
            path.unlink()
            packed = gzip.compress(content) if plain != name else content
            (folder / f"{plain}.{end}{'.gz' if plain != name else ''}").write_bytes(packed)


def write_recipe(path: Path, system: str, more: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shared = "false" if path.parent.name == "iwslt15" else "true"
    more = more or (HMT if system == "hmt" else "")
    text = RECIPE.format(system=system, more=more, shared=shared)
    path.write_text(COMPOSED if system == "adaptive" else text)


def world(folder: Path, count: int = 200) -> Place:
    """Text under the names of the benchmarks, and tiny recipes."""
    data, recipes = folder / "text", folder / "recipes"
    german, english, vietnamese = "de", "en", "vi"
    write_text(data, ("train.gz", "val", "test_2016_flickr"), (german, english), count)
    texts = {name: folder / name for name in ("europarl", "newstest", "iwslt15")}
    write_text(texts["europarl"], ("train.gz", "dev"), (german, english), count)
    write_text(texts["newstest"], ("newstest2013", "newstest2015"), (german, english), count)
    talks = ("train30k.gz", "tst2012.noapos", "tst2013.noapos")
    write_text(texts["iwslt15"], talks, (english, vietnamese), count)
    for name in (*SYSTEMS, "ablations/hmt"):
        write_recipe(recipes / "multi30k" / f"{name}.toml", name.split("/")[-1])
    write_recipe(recipes / "multi30k" / "gma-drawn.toml", "gma", "model.config.delta = [0.5, 3.0]")
    for corpus in ("europarl", "iwslt15"):
        for name in ("hmt", "multipath", "full", "itst", "adaptive"):
            write_recipe(recipes / corpus / f"{name}.toml", name)
    return Place(
        folder / "runs",
        data,
        folder / "results",
        recipes / "multi30k",
        texts,
        pieces=300,
        updates=4,
    )


def parts(*names: str) -> list[Part]:
    return chosen(PARTS, names)


def steps_of(place: Place, *names: str) -> list[Step]:
    return ordered(step for part in parts(*names) for step in part.steps(place))


def here(words: Sequence[str], log: Path, tick: Callable[[], None]) -> int:
    """Run a command in this process: quicker than to start Python for each."""
    tick()
    log.write_text("hmt: said last\n")
    return command(list(words))


def ledger_of(place: Place) -> Ledger:
    return Ledger(place.output / "steps")


def reported(
    place: Place,
    every: Sequence[Part] = PARTS,
    path: Path | None = None,
) -> Report:
    """What a report says of what is there; written to a path, and as a page beside it."""
    with together(place, every, ledger_of(place), {}) as (seen, known):
        report = build(seen, every, known)
        if path:
            write_markdown(report, path)
            write_page(report, path.with_suffix(".html"))
    return report


def make(place: Place, *names: str, execute=here, **options) -> dict[str, str]:
    steps = steps_of(place, *names)
    outcomes = run(steps, ledger_of(place), place.output / "logs", Lines(), execute, **options)
    return {outcome.step.name: outcome.status for outcome in outcomes}


def options(place: Place) -> list[str]:
    """The places, and the number of updates, as options of the command."""
    names = ("runs", "data", "output", "recipes")
    words = [word for name in names for word in (f"--{name}", str(getattr(place, name)))]
    words += ["--store", str(place.output.parent / "store")]
    return [*words, "--updates", str(place.updates)]


def everything(folder: Path) -> Place:
    """The real recipes, and an empty folder for all else."""
    recipes = Path(__file__).resolve().parents[1] / "recipes" / "multi30k"
    options = {option for part in PARTS for option in part.texts}
    return Place(folder, folder, folder, recipes, dict.fromkeys(options, folder), seeds=(1, 2))


def put_points(place: Place, folder: str, points: Sequence[tuple[dict, float, float]]) -> None:
    """Results as `hmt evaluate` leaves them: settings, AL, BLEU."""
    written = [
        {
            "settings": settings,
            "quality": {"bleu": quality},
            "latency": {"token": {"AL": latency}},
            "intervals": {"quality": {"bleu": [quality - 1, quality + 1]}},
        }
        for settings, latency, quality in points
    ]
    path = place.output / folder / "scores.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": 1, "points": written}))


def put_test(
    place: Place, comparison: Comparison, label: str, gain: float, p: float, seed: str = ""
) -> None:
    found = {"first": label, "second": "hmt", "difference": gain, "p": p, "range": [1.0, 3.0]}
    found |= {"interval": [gain - 1, gain + 1], "latency": "token.AL"}
    path = place.output / comparison.folder / f"against-{label}{seed}" / "rivals.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"differences": [found]}))
