"""Models of other programs become model directories of this one."""

from hmt.models.fairseq.convert import convert_fairseq

__all__ = ["convert_fairseq"]
