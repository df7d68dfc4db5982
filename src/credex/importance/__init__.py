"""Importances over a portfolio: few queries of many rows, assisted by a surrogate of the model."""
