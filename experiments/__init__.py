"""The paper's experiments, one module each; run with ``python -m experiments``, never installed."""
