"""Optional packages and data in tests: skipped with a reason, required where CREDEX_CI is set."""

import importlib
import os

import pytest


def need(name):
    """Import an optional package, or skip the test; at the top of a module, all of its tests.

    A package that is installed but broken is an error, never a skip.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        return missing(f"{error.name} is not installed")


def missing(reason):
    """Skip the test; where ``CREDEX_CI`` is set, everything must be there: fail it."""
    if os.environ.get("CREDEX_CI"):
        pytest.fail(f"{reason}, but must be where CREDEX_CI is set")
    pytest.skip(reason, allow_module_level=True)
