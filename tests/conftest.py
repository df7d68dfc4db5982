"""Fixtures for all tests."""

import pytest

from tests import needs


@pytest.fixture
def need():
    """`tests.needs.need` as a fixture."""
    return needs.need
