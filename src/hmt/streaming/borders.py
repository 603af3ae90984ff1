"""Where a sentence ended in a source without punctuation, judged by the model itself.

Shapes: B candidates, I target tokens, J source tokens.

A model that ends a sentence while source is still arriving has usually read into the next one.
The model itself can judge which words belong to the sentence: among all ways to end the source
after one of the last words, the right one makes the written sentence *and its end* most probable.
A missing word makes the text improbable; a superfluous word makes the end improbable.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hmt.systems.batch import make_batch
from hmt.systems.contract import System
from hmt.text.symbols import EOS

# Words before the last one read that may be the first of the next sentence.  A model that has read
# further into the next sentence than this has translated some of it already.
CANDIDATES = 8
# Target tokens, of several candidates, that are scored at a time.  Nothing else in a session needs
# as much memory for a moment as their logits do, and the C library may keep it for the next time:
# 66 MB for all candidates of a text of 63 tokens at once.
MOST_ROWS = 128


@dataclass(frozen=True)
class Border:
    """The most probable end of a sentence."""

    words: int  # of the source that belong to the sentence
    end_log_prob: float  # log p(end | that source, the text)


@torch.inference_mode()
def find_border(
    system: System,
    knobs: object,
    words: Sequence[Sequence[int]],
    target: Sequence[int],
    least: int = 1,
) -> Border:
    """How many of these words (token lists) `target` (without end token) translates, or `least`."""
    counts = list(range(max(least, len(words) - CANDIDATES), len(words) + 1))
    sources = [[token for word in words[:n] for token in word] + [EOS] for n in counts]
    size = max(1, MOST_ROWS // (len(target) + 1))
    parts = [sources[n : n + size] for n in range(0, len(sources), size)]
    log_prob = torch.cat([_log_probs(system, knobs, part, target) for part in parts])  # (B, I)
    best = int(log_prob.sum(1).argmax())
    return Border(counts[best], float(log_prob[best, -1]))


def _log_probs(
    system: System, knobs: object, sources: Sequence[Sequence[int]], target: Sequence[int]
) -> Tensor:
    """log p of each token of the target and of its end, after each of these sources. -> (B, I)"""
    device = system.transformer.output.weight.device
    batch = make_batch(sources, [[*target, EOS]] * len(sources), device)
    reads = batch.source_length[:, None].expand_as(batch.target)
    return system.score(batch, system.seeing_all(knobs), reads)
