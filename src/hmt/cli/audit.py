"""`hmt audit`: a proof that no output depends on source that was not yet read."""

from pathlib import Path

import typer

from hmt.cli import _knobs as knobs
from hmt.cli._app import app
from hmt.cli._model import DEVICE, MODEL_HELP, TRUST, open_model
from hmt.cli._progress import bars
from hmt.errors import UserError


@app.command(cls=knobs.KnobCommand, epilog=knobs.HELP)
def audit(
    context: typer.Context,
    model: list[str] | None = typer.Argument(
        None,
        metavar="MODEL | -- AGENT ARGUMENTS",
        help=f"{MODEL_HELP} With --agent-class: the arguments of the agent.",
    ),
    source: Path | None = typer.Option(
        None, help="Sentences to try, one per line. Default: random ones."
    ),
    agent_class: str | None = typer.Option(
        None, help="Audit this SimulEval agent instead of a model, as in package.module.Class."
    ),
    probes: int = typer.Option(
        15, min=1, max=100_000, help="How many times the unread rest of a sentence is replaced."
    ),
    seed: int = typer.Option(1, help="Seed of the random text."),
    device: str = DEVICE,
    trust: bool = TRUST,
) -> None:
    """Prove that no output depends on source not yet read.

    Replaces the source that was not yet read and compares what is written. Exit code 1 if
    anything changes.

    \b
    Examples:
      hmt audit model --source test.de --lower 3
      hmt audit --agent-class package.module.Class -- --agent-option value
    """
    from hmt.evaluation import audit as auditing
    from hmt.evaluation.evaluate import read_parallel

    given = model or []
    lines = None if source is None else read_parallel(source, None).sources
    if agent_class is not None:
        from hmt.evaluation.simuleval import build_agent

        if options := knobs.given(context):
            raise UserError(
                f"Give the agent's own options after --, as in -- --{next(iter(options))} ..."
            )
        agent = build_agent(agent_class, given)
        with bars() as progress:
            report = auditing.audit_agent(agent, lines, probes=probes, seed=seed, progress=progress)
    else:
        if len(given) > 1:
            raise UserError(f"hmt audit takes one model; {len(given)} were given.")
        loaded = open_model(given[0] if given else None, device, trust=trust)
        chosen = knobs.settings(knobs.given(context), loaded.system.Knobs, loaded.system.name)
        with bars() as progress:
            report = auditing.audit(
                loaded, lines, probes=probes, seed=seed, progress=progress, **chosen
            )
    typer.echo("\n".join(report.lines()))
    if not report.is_clean:
        raise typer.Exit(1)
