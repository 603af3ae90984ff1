"""Code that exists only for speed; except for int8, results are those of the plain computation."""
