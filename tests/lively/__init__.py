"""Random models that are lively (different tokens, different moments), and what to try them on.

A random model that always writes the same token, or always waits equally long, passes every test
of equality, on broken code too.

- `random_systems`: any system by its name, with sentences for it.
- `small_systems`: a system that a test has configured, with its weights enlarged.
- `naive_hmt`: HMTs whose confidences differ, and HMT once more, naively, to compare with.
"""
