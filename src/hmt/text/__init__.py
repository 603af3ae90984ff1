"""Text: tokenizers, live detokenisation, prepared corpora, splitting a stream into sentences."""
