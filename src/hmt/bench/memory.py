"""Peak memory of a training step's vocabulary losses, against the naive computation."""

import subprocess
import sys
from collections.abc import Iterator

from hmt.bench.setting import Row

TARGET = 1 / 3

_SCRIPT = """
import sys, torch
from hmt.model.vocabulary import gold_log_prob

def kilobytes(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1])

rows, width, vocabulary, naive = (int(a) for a in sys.argv[1:])
states = torch.randn(rows, width, requires_grad=True)
weight = torch.randn(vocabulary, width, requires_grad=True)
gold = torch.randint(vocabulary, (rows,))
open("/proc/self/clear_refs", "w").write("5")  # forget the peak of the imports
before = kilobytes("VmRSS")
if naive:
    log_prob = (states @ weight.T).log_softmax(-1)
    chosen, mean = log_prob.gather(1, gold[:, None])[:, 0], log_prob.mean(-1)
else:
    chosen, mean = gold_log_prob(states, weight, gold)
(chosen.sum() + 0.1 * mean.sum()).backward()
print(kilobytes("VmHWM") - before)
"""


def measure(tokens: int, rows_per_token: float, width: int, vocabulary: int) -> Iterator[Row]:
    """Each in a process of its own: the peak of a process never goes down."""
    rows = round(tokens * rows_per_token)
    kilobytes = {}
    for naive in (0, 1):
        command = [
            sys.executable,
            "-c",
            _SCRIPT,
            str(rows),
            str(width),
            str(vocabulary),
            str(naive),
        ]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        kilobytes[naive] = int(out)
    yield {
        "what": f"peak memory of vocabulary losses, {tokens} tokens, K=6, ours / naive",
        "value": round(kilobytes[0] / kilobytes[1], 3),
        "unit": "x",
        "at_most": round(TARGET, 3),
        "ours_mb": kilobytes[0] // 1024,
        "naive_mb": kilobytes[1] // 1024,
    }
