"""The figures and tables of the HMT paper, at small scale: a plan of steps, a report of results.

plan.py: what a step and a part are.  steps.py: steps that are commands of `hmt`.  parts/: one
figure or table each.  running.py: runs what is missing.  store.py: results that outlive the disk
they were made on.  known.py: stored and local results.  report.py: our results beside the paper's.
"""
