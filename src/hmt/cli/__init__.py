"""The command line. Commands import what they need when they run, so that help is quick."""

from hmt.cli import (
    analysis,
    audit,
    bench,
    comparison,
    data,
    demo,
    evaluation,
    models,
    serve,
    training,
    translation,
)
from hmt.cli.app import main

__all__ = [
    "analysis",
    "audit",
    "bench",
    "comparison",
    "data",
    "demo",
    "evaluation",
    "main",
    "models",
    "serve",
    "training",
    "translation",
]
