"""The command line. Commands import what they need when they run, so that help is quick."""

from hmt.cli import data
from hmt.cli.app import main

__all__ = ["data", "main"]
