"""The shape of a network."""

from dataclasses import dataclass

from hmt import limits
from hmt.errors import UserError


@dataclass(frozen=True)
class Dims:
    """Everything that fixes the shape of the network."""

    source_vocabulary: int
    target_vocabulary: int
    width: int = 512
    ffn: int = 2048
    heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    dropout: float = 0.1
    norm: str = "post"  # "post" as in the papers, or "pre"
    share_embeddings: bool = True  # one table for source and target (joint vocabulary)
    tie_output: bool = True  # the output projection is the target embedding

    def __post_init__(self) -> None:
        for name, (least, most) in limits.DIMS.items():
            if not least <= getattr(self, name) <= most:
                raise UserError(
                    f"dims.{name} = {getattr(self, name)}: give a number from {least} to {most:,}."
                )
        if not 0 <= self.dropout < 1:
            raise UserError(f"dims.dropout = {self.dropout}: give 0 or more, and less than 1.")
        if self.width % (2 * self.heads):
            raise UserError(
                f"width {self.width} with {self.heads} heads: the width must be a multiple of "
                "twice the number of heads; change dims.width or dims.heads."
            )
        if self.norm not in ("post", "pre"):
            raise UserError(f'norm "{self.norm}" is unknown: dims.norm is "post" or "pre".')
        if self.share_embeddings and self.source_vocabulary != self.target_vocabulary:
            raise UserError(
                f"Shared embeddings need one vocabulary, but the source has "
                f"{self.source_vocabulary} symbols and the target {self.target_vocabulary}; "
                "set dims.share_embeddings = false or prepare with a joint vocabulary."
            )
