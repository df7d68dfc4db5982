"""Recipes: how values of perturbed inputs become a posterior of importances."""
