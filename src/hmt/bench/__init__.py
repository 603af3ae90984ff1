"""Speed: every figure is a ratio within one run, rows are counted exactly.

Each module measures one thing and yields plain rows: {"what", "value", "unit", "spread", ...}.
"""
