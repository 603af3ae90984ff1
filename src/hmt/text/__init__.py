"""Text: tokenizers, live detokenising, prepared corpora, cutting a stream into sentences."""
