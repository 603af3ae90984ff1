"""The Transformer over rows, and the recursions over reading and writing."""
