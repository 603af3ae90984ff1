"""Every figure and table of the paper that the plan can make, in the paper's order."""

from hmt.paper.parts import ablations, main, pictures, policy, selection, speed

PARTS = (
    main.PARTS[0],
    *speed.PARTS,
    *ablations.PARTS,
    *selection.PARTS,
    *pictures.PARTS,
    *policy.PARTS,
    main.PARTS[1],
)

# What the paper has and the plan does not make.
NOT_PLANNED = (
    "Figure 4 (a) to (c) on the paper's own corpora: IWSLT15 En-Vi and WMT15 De-En need GPUs; the "
    "recipes are in recipes/paper.",
    "Table 7, hyperparameters: they are the settings of the recipes in recipes/paper.",
    "Figures 1 to 3, 7 and 14 explain the model and show no results.",
)
