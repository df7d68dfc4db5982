"""Optional packages in tests: skipped with a reason at home, required with ``CREDEX_CI``."""

import importlib
import os

import pytest


def need(name):
    """Import an optional package, or skip the test; with ``CREDEX_CI`` a missing one fails it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if os.environ.get("CREDEX_CI"):
            pytest.fail(f"{name} must be installed here: {error}")
        pytest.skip(f"{name} is not installed")
