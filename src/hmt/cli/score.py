"""`hmt score`: forced decoding of given translations."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from hmt.cli import _knobs as knobs
from hmt.cli._app import app
from hmt.cli._model import DEVICE, MODEL, TRUST, open_model
from hmt.limits import MOST_SLOTS

logger = logging.getLogger(__name__)


@app.command(cls=knobs.KnobCommand, epilog=knobs.HELP)
def score(
    context: typer.Context,
    model: str | None = MODEL,
    source: Path = typer.Option(..., help="Source sentences, one per line."),
    target: Path = typer.Option(..., help="Their translations, one per line."),
    alignment: Path | None = typer.Option(
        None,
        help="Gold word alignments, one line per pair as in 1-1 2p3: adds the share of words "
        "whose source had been read, and a last line with the sums.",
    ),
    alignment_base: int | None = typer.Option(
        None, min=0, max=1, help="Index of the first word in the alignments. Default: detected."
    ),
    batch: int = typer.Option(16, min=1, max=MOST_SLOTS, help="Pairs computed side by side."),
    device: str = DEVICE,
    trust: bool = TRUST,
) -> None:
    """Force given translations and print one JSON object per pair.

    Each has the losses, the reads of the policy, the candidate moments and their confidences, and
    the log-probability of each target token. With --alignment a last object of "kind": "summary"
    has the shares of all pairs and their average lagging.

    \b
    Example:
      hmt score model --source test.de --target test.en > scores.jsonl
    """
    from hmt.evaluation.evaluate import read_parallel
    from hmt.evaluation.forced import forced
    from hmt.metrics.alignment import PolicyQuality, read_alignments

    loaded = open_model(model, device, trust=trust)
    chosen = knobs.settings(knobs.given(context), loaded.system.Knobs, loaded.system.name)
    text = read_parallel(source, target)
    targets = text.references or ()
    policy, shares = None, []
    if alignment is not None:
        gold = read_alignments(alignment, text.sources, targets, alignment_base)
        policy = PolicyQuality(loaded.tokenizers, text.sources, targets, gold)
    for found in forced(loaded, text.sources, targets, loaded.knobs(**chosen), batch):
        if policy is not None:
            found["alignment"] = policy.add(found["index"], found["reads"])
            shares.append(found["alignment"])
        typer.echo(json.dumps(found))
    if policy is not None:
        typer.echo(json.dumps(_summary(shares, policy.lags)))
        logger.info("%s", policy)


def _summary(
    shares: Sequence[dict[str, dict[str, Any]]], lags: Sequence[float | None]
) -> dict[str, Any]:
    """The last line of JSON: aligned words of all pairs, and the mean AL in tokens."""
    alignment = {}
    for name in ("sure", "possible"):
        words, read = (sum(share[name][key] for share in shares) for key in ("words", "read"))
        alignment[name] = {"words": words, "read": read, "share": read / words if words else None}
    known = [lag for lag in lags if lag is not None]
    mean = sum(known) / len(known) if known else None
    return {"kind": "summary", "pairs": len(shares), "alignment": alignment, "AL": mean}
