"""`hmt audit`: a proof that no output depends on source that was not yet read."""

from pathlib import Path

import typer

from hmt.cli import knobs
from hmt.cli.app import app
from hmt.cli.loading import DEVICE, TRUST, open_model
from hmt.cli.progress import bars
from hmt.errors import UserError


@app.command(cls=knobs.KnobCommand, epilog=knobs.HELP)
def audit(
    context: typer.Context,
    model: list[str] | None = typer.Argument(
        None,
        metavar="MODEL | -- AGENT ARGUMENTS",
        help="A model directory; or, with --agent-class, what the agent is given.",
    ),
    source: Path | None = typer.Option(
        None, help="Sentences to try, one per line; without, invented ones."
    ),
    agent_class: str | None = typer.Option(
        None, help="Audit an agent of SimulEval instead, named as package.module.Class."
    ),
    probes: int = typer.Option(15, min=1, help="Times that the rest of a sentence is replaced."),
    seed: int = typer.Option(1, help="Of the random text."),
    device: str = DEVICE,
    trust: bool = TRUST,
) -> None:
    """Prove that nothing looks ahead: replace what was not read, and see that nothing changes.

    Exit code 1 if a leak was found.
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
        if len(given) != 1:
            raise UserError(f"hmt audit takes one model directory; {len(given)} were given.")
        loaded = open_model(Path(given[0]), device, trust=trust)
        chosen = knobs.settings(knobs.given(context), loaded.system.Knobs, loaded.system.name)
        with bars() as progress:
            report = auditing.audit(
                loaded, lines, probes=probes, seed=seed, progress=progress, **chosen
            )
    for line in report.lines():
        typer.echo(line)
    if not report.is_clean:
        raise typer.Exit(1)
