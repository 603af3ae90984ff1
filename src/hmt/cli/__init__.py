"""The command line: one module per command, named after it.

Shared pieces have a leading underscore. Commands import what they need when they run, so that
`hmt --help` answers before torch is loaded.
"""

from importlib import import_module

from hmt.cli._app import app, main, run

# In the order in which a project uses them, as listed by `hmt --help`.
COMMANDS = (
    *("demo", "translate", "serve", "prepare", "train", "average", "segmenter"),
    *(
        "info",
        "convert",
        "evaluate",
        "compare",
        "plot",
        "analyse",
        "explain",
        "score",
        "audit",
        "bench",
        "paper",
    ),
)
for _name in COMMANDS:
    import_module(f"hmt.cli.{_name}")

__all__ = ["COMMANDS", "app", "main", "run"]
