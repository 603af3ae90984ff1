"""Simultaneous machine translation: words in one at a time, translated words out."""
