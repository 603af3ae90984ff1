"""`hmt serve`: live translation for many speakers and even more listeners."""
