"""The figures and tables of the HMT paper, at small scale: a plan of steps, a report of results.

plan.py: what a step and a part are.  steps.py: steps that are commands of `hmt`.  parts/: one
figure or table each.  running.py: runs what is missing.  store.py: results that outlive their
disk.  known.py: those and the ones made here.  report.py: ours beside theirs.
"""
