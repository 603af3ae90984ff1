"""Models of other programs, converted into model directories."""

from hmt.models.fairseq.convert import convert_fairseq

__all__ = ["convert_fairseq"]
