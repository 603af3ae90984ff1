"""`hmt serve`: live translation for many speakers and many more listeners."""
