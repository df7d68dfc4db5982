"""Estimators: from what was asked and answered to a posterior of the importances."""
