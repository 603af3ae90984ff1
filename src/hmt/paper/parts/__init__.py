"""Every figure and table of the paper that the plan can make, in the paper's order."""

from hmt.paper.parts import ablations, corpora, main, numerical, pictures, policy, selection, speed

PARTS = (
    *main.PARTS,
    *corpora.PARTS,
    *speed.PARTS,
    *ablations.PARTS,
    *selection.PARTS,
    *pictures.PARTS,
    *policy.PARTS,
    *numerical.PARTS,
)
# The order in which they are made: cheap and instructive ones first, so that a night cut short
# still shows something of every part.
ORDER = (
    *("speed", "accuracy", "selection", "cases", "threshold", "numerical", "main", "architecture"),
    *("policy", "scratch", "hmm-loss", "state-weight", "state-loss", "latency-weight", "attention"),
    *("iwslt15", "europarl", "states", "time"),
)

# What the paper has and the plan does not make.
NOT_PLANNED = (
    "Figure 4 on the paper's own corpora in full: WMT15 De-En (4.5 million pairs, Base and Big) "
    "and the whole of IWSLT15 En-Vi need GPUs; the recipes are in recipes/paper.",
    "Table 7, hyperparameters: they are the settings of the recipes in recipes/paper.",
    "Figures 1 to 3, 7 and 14 explain the model and show no results.",
)
