"""Average the weights that two models share; those that only the first has are copied from it.

    python recipes/german-english/blend.py FIRST SECOND OUTPUT.safetensors [SHARE]

SHARE is the share of the second in the mean, from 0 to 1; 0.5 if it is not given.

A stage that starts at a high learning rate moves away from where the stage before ended, and ends
elsewhere at about the same loss.  The mean of the two results is better than either (the idea of
stochastic weight averaging: Izmailov and others, 2018).
"""

import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"


def main(first: Path, second: Path, output: Path, share: float = 0.5) -> None:
    """Blend two model directories."""
    own, other = (load_file(folder / WEIGHTS) for folder in (first, second))
    blended = {
        name: weight.float().lerp(other[name].float(), share) if name in other else weight.float()
        for name, weight in own.items()
    }
    save_file(blended, output)
    print(f"{output}: a mean of {len(own.keys() & other.keys())} of {len(own)} tensors")


if __name__ == "__main__":
    first, second, output, *share = sys.argv[1:]
    main(Path(first), Path(second), Path(output), *map(float, share))
