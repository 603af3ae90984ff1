"""Evaluation: latency and quality of translations, drawn from records and logs."""
