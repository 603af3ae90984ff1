"""Training: recipes in, model directories out; any run can be stopped and resumed."""

from hmt.training.average import average_models
from hmt.training.recipe import Recipe, load_recipe, parse_recipe
from hmt.training.train import Progress, Result, train

__all__ = [
    "Progress",
    "Recipe",
    "Result",
    "average_models",
    "load_recipe",
    "parse_recipe",
    "train",
]
