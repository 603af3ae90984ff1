"""Models on disk and in memory: the model directory, loading, averaging, import."""
