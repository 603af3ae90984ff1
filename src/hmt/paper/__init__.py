"""The figures and tables of the HMT paper, in small: a plan of steps, a report of what is there.

plan.py: what a step and a part are.  steps.py: steps that are commands of `hmt`.  parts/: one
figure or table each.  running.py: runs what is missing.  store.py: results that outlive their
disk.  known.py: those and what is here.  report.py: ours beside theirs.
"""
