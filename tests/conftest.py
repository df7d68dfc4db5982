"""Fixtures for all tests."""

import importlib
import os

import pytest


@pytest.fixture
def need():
    """``need("torch")`` imports an optional package, or skips; where CREDEX_CI is set it fails."""

    def get(name):
        try:
            return importlib.import_module(name)
        except ImportError:
            if os.environ.get("CREDEX_CI"):
                raise
            return pytest.skip(f"{name} is not installed")

    return get
