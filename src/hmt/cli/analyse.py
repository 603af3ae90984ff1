"""`hmt analyse`: the analyses of the HMT paper, each from records, each a picture and its data."""

import logging
from pathlib import Path

import typer

from hmt.cli import _knobs as knobs
from hmt.cli._analyses import (
    compare_curves,
    forced_pairs,
    plain_curves,
    translations,
    write_analysis,
)
from hmt.cli._app import app
from hmt.cli._model import DEVICE, MODEL, TRUST, open_model
from hmt.cli._progress import bars
from hmt.cli._scores import MAX_RESAMPLES
from hmt.errors import UserError
from hmt.files import write_atomically
from hmt.limits import MOST_SLOTS

logger = logging.getLogger(__name__)

analyse = typer.Typer(help="Analyse confidence, policy, speed and single cases.")
app.add_typer(analyse, name="analyse")

# a file is refused at once: some analyses measure for minutes before they write
OUTPUT = typer.Option(
    ..., file_okay=False, help="Directory for the data (.json) and the picture (.svg)."
)
RESAMPLES = typer.Option(1000, min=0, max=MAX_RESAMPLES, help="Bootstrap resamples for intervals.")
TESTS = typer.Option(200, min=1, max=MAX_RESAMPLES, help="Resamples of the paired bootstrap.")
QUALITY = typer.Option("bleu", help="Measure of quality, as in hmt plot.")
LATENCY = typer.Option("token.AL", help="Measure of latency, as in hmt plot.")
SOURCE = typer.Option(..., help="Source sentences, one per line.")
TARGET = typer.Option(..., help="Their translations, one per line.")
BATCH = typer.Option(16, min=1, max=MOST_SLOTS, help="Pairs computed side by side.")


@analyse.command(cls=knobs.KnobCommand, epilog=knobs.HELP)
def accuracy(
    context: typer.Context,
    model: str | None = MODEL,
    source: Path = SOURCE,
    target: Path = TARGET,
    output: Path = OUTPUT,
    groups: int = typer.Option(10, min=1, max=100, help="Bands of confidence."),
    resamples: int = RESAMPLES,
    batch: int = BATCH,
    device: str = DEVICE,
    trust: bool = TRUST,
) -> None:
    """Token accuracy by confidence: does the model know when it is right?

    The translations are forced; a state is correct if its most probable token is the given one.

    \b
    Example:
      hmt analyse accuracy model --source test.de --target test.en --output accuracy
    """
    from hmt.analysis.bars import accuracy_figure
    from hmt.analysis.selection import accuracy_by_confidence, accuracy_by_place

    loaded = open_model(model, device, trust=trust)
    chosen = knobs.settings(knobs.given(context), loaded.system.Knobs, loaded.system.name)
    pairs = forced_pairs(loaded, source, target, loaded.knobs(**chosen), batch)
    found = accuracy_by_confidence(pairs, groups, resamples)
    places = accuracy_by_place(pairs, resamples)
    data = {"groups": found, "places": places, "pairs": len(pairs)}
    write_analysis(output, "accuracy", data, accuracy_figure(found))


@analyse.command()
def selection(
    records: Path = typer.Argument(
        ..., metavar="RECORDS", help="A records.jsonl of hmt evaluate, or its folder."
    ),
    output: Path = OUTPUT,
    groups: int = typer.Option(4, min=1, max=100, help="Groups of equally many sentences."),
    resamples: int = RESAMPLES,
) -> None:
    """BLEU by probability of the selection, p(z) per token.

    \b
    Example:
      hmt analyse selection curve/lower=3 --output selection
    """
    from hmt.analysis.bars import selection_figure
    from hmt.analysis.selection import bleu_by_selection
    from hmt.evaluation.records import read_records

    read = read_records(records)
    found = bleu_by_selection(read, groups, resamples)
    data = {"groups": found, "sentences": len(read)}
    write_analysis(output, "selection", data, selection_figure(found))


@analyse.command(
    cls=knobs.KnobCommand,
    epilog=knobs.HELP + " Several values, as in --lower 1,3,5, sweep a curve.",
)
def policy(
    context: typer.Context,
    model: str | None = MODEL,
    source: Path = SOURCE,
    target: Path = TARGET,
    alignment: Path = typer.Option(
        ..., help="Gold word alignments, one line per pair as in 1-1 2p3."
    ),
    output: Path = typer.Option(
        ..., file_okay=False, help="Directory for scores.json and policy.svg."
    ),
    alignment_base: int | None = typer.Option(
        None, min=0, max=1, help="Index of the first word in the alignments. Default: detected."
    ),
    resamples: int = RESAMPLES,
    batch: int = BATCH,
    device: str = DEVICE,
    trust: bool = TRUST,
) -> None:
    """Policy quality: share of aligned source words read before each word was written.

    \b
    Example:
      hmt analyse policy model --source test.de --target test.en --alignment test.talp \\
        --lower 1,3,5 --output policy
      hmt plot policy other --quality aligned_sure --latency token.AL --output policies.svg
    """
    from hmt.analysis.curves import Axes, read_curve
    from hmt.analysis.figures import curve_figure, save_figure
    from hmt.evaluation.evaluate import read_parallel
    from hmt.evaluation.policy import policy_sweep

    loaded = open_model(model, device, trust=trust)
    settings = list(knobs.sweep(knobs.given(context), loaded.system.Knobs, loaded.system.name))
    text = read_parallel(source, target)
    with bars() as progress:
        points = policy_sweep(
            loaded,
            text,
            alignment,
            output,
            settings,
            base=alignment_base,
            batch=batch,
            resamples=resamples,
            progress=progress,
        )
    for point in points:
        lag, shares = point["latency"]["token"]["AL"], point["quality"]
        typer.echo(
            f"AL {lag:.2f}: {shares['aligned_sure']:.1f} % by sure links, "
            f"{shares['aligned_possible']:.1f} % by all; {point['settings']}"
        )
    axes = Axes.named("aligned_sure", "token.AL")
    figure = curve_figure([read_curve([output], axes, loaded.system.name)], axes)
    save_figure(figure, output / "policy.svg")
    logger.info("Figure: %s", output / "policy.svg")


@analyse.command()
def rivals(
    curves: list[str] = typer.Argument(
        ...,
        metavar="LABEL=DIR[,DIR]...",
        help="Results of hmt evaluate; several directories are one curve of several models.",
    ),
    output: Path = OUTPUT,
    quality: str = QUALITY,
    latency: str = LATENCY,
    resamples: int = TESTS,
) -> None:
    """Curves of several systems, and a paired test of the first against each other one.

    \b
    Example:
      hmt analyse rivals HMT=curves/hmt "wait-k=curves/wait-1,curves/wait-3" --output rivals
    """
    from hmt.analysis.curves import Axes

    axes = Axes.named(quality, latency)
    pairs = [(n, 0) for n in range(1, len(curves))]
    compare_curves("rivals", curves, pairs, axes, output, resamples)


@analyse.command()
def architecture(
    own: str = typer.Option(..., help="DIR: HMT with its own policy."),
    last: str = typer.Option(..., help="DIR: HMT evaluated with --policy last, which is wait-k."),
    wait_k: str = typer.Option(..., help="DIR[,DIR]: wait-k models."),
    output: Path = OUTPUT,
    quality: str = QUALITY,
    latency: str = LATENCY,
    resamples: int = TESTS,
) -> None:
    """What the architecture and the policy contribute: wait-k, HMT with wait-k inference, HMT.

    \b
    Example:
      hmt analyse architecture --own curves/hmt --last curves/last --wait-k curves/multipath \\
        --output architecture
    """
    from hmt.analysis.curves import Axes

    curves = [f"wait-k={wait_k}", f"HMT + wait-k inference={last}", f"HMT={own}"]
    axes = Axes.named(quality, latency)
    compare_curves("architecture", curves, [(0, 1), (1, 2)], axes, output, resamples)


@analyse.command()
def threshold(
    directory: Path = typer.Argument(
        ..., metavar="DIR", help="Results of hmt evaluate with several thresholds."
    ),
    output: Path = OUTPUT,
    quality: str = QUALITY,
    latency: str = LATENCY,
) -> None:
    """Quality and latency at each confidence threshold.

    With several values of --lower, each threshold is a curve, otherwise a point of one.

    \b
    Example:
      hmt evaluate model --source test.de --target test.en --threshold 0.2,0.5,0.8 \\
        --lower 1,3,5 --output thresholds
      hmt analyse threshold thresholds --output threshold
    """
    from hmt.analysis.curves import Axes, by_setting, read_curve
    from hmt.analysis.figures import curve_figure

    axes = Axes.named(quality, latency)
    curves = by_setting(read_curve([directory], axes, directory.name), "threshold")
    write_analysis(
        output, "threshold", {"curves": plain_curves(curves)}, curve_figure(curves, axes)
    )


@analyse.command()
def speed(
    output: Path = OUTPUT,
    size: str = typer.Option("tiny", help="Size of the models: tiny or base."),
    repeats: int = typer.Option(5, min=1, max=1000, help="Measurements of each figure."),
    threads: int = typer.Option(2, min=1, max=256, help="Threads to compute with."),
) -> None:
    """Parameters, seconds per training batch and seconds per live token of each system.

    \b
    Example:
      hmt analyse speed --size tiny --output speed
    """
    import torch

    from hmt.analysis.bars import speed_figure
    from hmt.bench.setting import SIZES
    from hmt.bench.table import speed_table

    if size not in SIZES:
        raise UserError(f'Size "{size}" is unknown; it is {" or ".join(SIZES)}.')
    torch.set_num_threads(threads)
    rows = speed_table(size, repeats)
    data = {"size": size, "threads": threads, "rows": rows}
    write_analysis(output, "speed", data, speed_figure(rows))
    for row in rows:
        typer.echo(
            f"{row['system']:12} {row['parameters']:>12,} parameters  "
            f"{row['seconds_per_batch']:8.3f} s/batch  {row['seconds_per_token']:8.4f} s/token"
        )


@analyse.command(name="state-loss")
def state_loss(
    with_loss: str = typer.Argument(..., metavar="WITH", help="Model trained with the state loss."),
    without: str = typer.Argument(..., metavar="WITHOUT", help="The same trained without it."),
    source: Path = SOURCE,
    target: Path = TARGET,
    output: Path = OUTPUT,
    index: int | None = typer.Option(
        None, min=0, help="Sentence to draw. Default: the first on which the two differ."
    ),
    resamples: int = RESAMPLES,
    batch: int = BATCH,
    trust: bool = TRUST,
) -> None:
    """The states of two models, one trained without the state loss: accuracy, and pictures.

    \b
    Example:
      hmt analyse state-loss runs/reference runs/state-0 --source test.de --target test.en \\
        --output state-loss
    """
    from hmt.analysis.bars import places_figure
    from hmt.analysis.cases import gallery, png
    from hmt.analysis.explanation import explain_record
    from hmt.analysis.selection import accuracy_by_place
    from hmt.analysis.state_loss import differing

    named = {"with": with_loss, "without": without}
    models = {name: open_model(path, trust=trust) for name, path in named.items()}
    found, translated = {}, {}
    for name, model in models.items():
        pairs = forced_pairs(model, source, target, model.knobs(), batch)
        found[f"{name} state loss"] = accuracy_by_place(pairs, resamples)
        translated[name] = translations(model, source, target)
    chosen = differing(translated["with"], translated["without"]) if index is None else index
    if chosen >= (count := len(translated["with"])):
        raise UserError(f"There is no sentence {chosen}; there are {count}, counted from 0.")
    explained = {
        f"{name.capitalize()} the state loss": explain_record(records[chosen], models[name])
        for name, records in translated.items()
    }
    output.mkdir(parents=True, exist_ok=True)
    for name, explanation in zip(named, explained.values(), strict=True):
        write_atomically(output / f"{name}.png", png(explanation))
    page = gallery(list(explained.items()), "Effect of the state loss")
    write_atomically(output / "state-loss.html", page)
    texts = {name: records[chosen].prediction for name, records in translated.items()}
    data = {"places": found, "sentence": chosen, "predictions": texts}
    write_analysis(output, "state-loss", data, places_figure(found))


@analyse.command()
def cases(
    model: str = typer.Argument(..., metavar="MODEL", help="The model that made the records."),
    records: Path = typer.Argument(
        ..., metavar="RECORDS", help="A records.jsonl of hmt evaluate, or its folder."
    ),
    output: Path = typer.Option(
        ..., file_okay=False, help="Directory for cases.html and a .png per case."
    ),
    device: str = DEVICE,
    trust: bool = TRUST,
) -> None:
    """A gallery of case studies: the longest wait, the most waits, a long sentence, an easy one.

    \b
    Example:
      hmt analyse cases model curve/lower=3 --output cases
    """
    from hmt.analysis.cases import choose, gallery, png
    from hmt.analysis.explanation import explain_record
    from hmt.analysis.waits import waits
    from hmt.evaluation.records import read_records

    loaded = open_model(model, device, trust=trust)
    chosen = choose(read_records(records))
    explained = [(case.title, explain_record(case.record, loaded)) for case in chosen]
    output.mkdir(parents=True, exist_ok=True)
    data = []
    for n, (case, (title, explanation)) in enumerate(zip(chosen, explained, strict=True), 1):
        write_atomically(output / f"case-{n}.png", png(explanation))
        texts = {k: getattr(explanation, k) for k in ("source", "prediction", "reference")}
        reasons = [wait.sentence for wait in waits(explanation)]
        said = {"waits": reasons, "waited": len(reasons)}
        data.append({"title": title, "index": case.record.index, **texts, **said})
    write_atomically(output / "cases.html", gallery(explained, "Case studies"))
    write_analysis(output, "cases", {"cases": data}, None)
