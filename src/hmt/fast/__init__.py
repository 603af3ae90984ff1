"""What only speed needs; the results are those of the plain computation."""
