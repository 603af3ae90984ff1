"""All conventions of some results in Markdown: python recipes/multi30k/table.py FOLDER ...

FOLDER is what `hmt evaluate --output` wrote.
"""

import sys
from pathlib import Path
from typing import Any

from hmt.evaluation.points import read_points

DIALS = ("lower", "k", "delta", "threshold")  # the setting that a line is named after
TOKEN, WORD = ("AL", "DAL"), ("AL", "LAAL", "DAL")


def line(name: str, point: dict[str, Any], dial: str | None) -> str:
    """One point: sacreBLEU with its interval, tokenised BLEU, latency in tokens and in words."""
    low, high = point["intervals"]["quality"]["bleu"]
    quality, latency = point["quality"], point["latency"]
    cells = [
        name if dial is None else f"{name}, {dial} {point['settings'][dial]}",
        f"{quality['bleu']:.1f} [{low:.1f}, {high:.1f}]",
        f"{quality['bleu_tokenised_lc']:.1f}",
        *(f"{latency['token'][metric]:.2f}" for metric in TOKEN),
        *(f"{latency['word'][metric]:.2f}" for metric in WORD),
    ]
    return f"| {' | '.join(cells)} |"


def main(*folders: str) -> None:
    """Print the table."""
    latency = [f"{m} token" for m in TOKEN] + [f"{m} word" for m in WORD]
    print(f"| | BLEU | tokenised, lc | {' | '.join(latency)} |")
    print("|---" * (3 + len(latency)) + "|")
    for folder in map(Path, folders):
        points = read_points(folder / "scores.json")
        settings = [p["settings"] for p in points]
        varying = [d for d in DIALS if len({str(s.get(d)) for s in settings}) > 1]
        for point in sorted(points, key=lambda p: p["latency"]["token"]["AL"]):
            name = folder.name.removesuffix("-test")
            print(line(name, point, varying[0] if varying else None))


if __name__ == "__main__":
    main(*sys.argv[1:])
