"""The Transformer over rows, the moments its rows live at, the recursions over them."""
