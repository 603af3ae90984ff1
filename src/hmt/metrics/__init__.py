"""Quality and latency as pure functions of records."""
