"""From arriving words to written words: the engine, its caches, and sessions of text."""
