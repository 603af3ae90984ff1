"""Tables, figures and pages, drawn from scores, records and explanations only."""
