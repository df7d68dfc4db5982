"""Designs: which perturbations exist, and in which order they are asked."""
