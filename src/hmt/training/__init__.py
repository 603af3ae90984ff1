"""Training: recipes in, model directories out; any run can be stopped and resumed."""

from hmt.models.weights import average
from hmt.training.recipe import Recipe, load_recipe, parse_recipe
from hmt.training.train import Progress, Result, train
from hmt.training.validation import Slice, Validate

__all__ = [
    "Progress",
    "Recipe",
    "Result",
    "Slice",
    "Validate",
    "average",
    "load_recipe",
    "parse_recipe",
    "train",
]
