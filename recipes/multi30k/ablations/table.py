"""The ablations of the HMT paper beside ours: python recipes/multi30k/ablations/table.py FOLDER

The paper's figures are of WMT15 De-En with Transformer-Base, L = 3 and K = 6 where nothing else is
said; ours are of Multi30k with a small model, L = 2 and K = 4.  Only their order can be compared.
"""

import sys
from pathlib import Path
from typing import Any

from hmt.evaluation.points import read_points

# what, the paper's (AL, BLEU), folder of ours, the setting that its point must have
LINES: list[tuple[str, tuple[float, float] | None, str, dict[str, Any]]] = [
    ("all selections (reference)", (3.46, 29.29), "reference", {"threshold": 0.5}),
    ("best selection only", (1.77, 24.02), "best-path", {}),
    ("latency weight 0", (6.66, 30.07), "latency-0", {}),
    ("latency weight 2", (2.00, 25.94), "latency-2", {}),
    ("state weight 0", (3.24, 27.74), "state-0", {}),
    ("K = 1 (paper L = 4, ours L = 4)", (2.57, 25.57), "L4-K1", {}),
    ("K = 2 (L = 3)", (2.15, 26.07), "L3-K2", {}),
    ("K = 4 (L = 2)", (2.20, 27.60), "reference", {"threshold": 0.5}),
    ("K = 6 (L = 1)", (2.28, 25.69), "L1-K6", {}),
    (
        "attention multiple, inference max",
        (3.37, 28.99),
        "reference-attention",
        {"attention": "max"},
    ),
    ("multiple, selected", (3.42, 28.83), "reference-attention", {"attention": "selected"}),
    ("max, max", (3.30, 28.66), "max", {"attention": "max"}),
    ("max, selected", (3.36, 28.46), "max", {"attention": "selected"}),
    ("threshold 0.3", None, "reference", {"threshold": 0.3}),
    ("threshold 0.4", None, "reference", {"threshold": 0.4}),
    ("threshold 0.6", None, "reference", {"threshold": 0.6}),
    ("threshold 0.7", None, "reference", {"threshold": 0.7}),
    ("trained for L = 2 only, at L = 2", None, "reference", {"threshold": 0.5}),
    ("trained for L = 1..6, at L = 2", None, "all", {"lower": 2}),
    ("trained for L = 4 only, at L = 4", None, "L4-K4", {}),
    ("trained for L = 1..6, at L = 4", None, "all", {"lower": 4}),
    ("trained for L = 6 only, at L = 6", None, "L6-K4", {}),
    ("trained for L = 1..6, at L = 6", None, "all", {"lower": 6}),
]


def point(folder: Path, setting: dict[str, Any]) -> tuple[float, float, list[float]]:
    """AL (token), BLEU and its interval at the one point that has the setting."""
    points = read_points(folder / "scores.json")
    (found,) = (p for p in points if setting.items() <= p["settings"].items())
    interval = found["intervals"]["quality"]["bleu"]
    return found["latency"]["token"]["AL"], found["quality"]["bleu"], interval


def main(folder: str) -> None:
    """Print what has been evaluated so far."""
    print("| | paper: AL | BLEU | ours: AL token | BLEU |")
    print("|---|---|---|---|---|")
    for what, paper, name, setting in LINES:
        if not (Path(folder) / name / "scores.json").exists():
            continue
        lag, bleu, (low, high) = point(Path(folder) / name, setting)
        theirs = f"{paper[0]:.2f} | {paper[1]:.2f}" if paper else " | "
        print(f"| {what} | {theirs} | {lag:.2f} | {bleu:.1f} [{low:.1f}, {high:.1f}] |")


if __name__ == "__main__":
    main(*sys.argv[1:])
