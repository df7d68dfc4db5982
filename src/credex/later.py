"""Fields that are made when they are first read.

Most of what a result can tell is never asked for. A frozen dataclass names such fields in ``lazy``
and may then be given ``later(make)`` in their place: reading, copying and pickling see the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

__all__ = ["Lazily", "later"]


class _Later:
    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def later(make: Callable[[], Any]) -> Any:
    """Stand in for what ``make()`` returns."""
    return _Later(make)


class Lazily:
    """Base of frozen, slotted dataclasses with fields that may be made later.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, slots=True)
    ... class Pair(Lazily):
    ...     lazy = ("second",)
    ...     first: int
    ...     second: int
    >>> Pair(1, later(lambda: 2)).second
    2
    """

    __slots__ = ("_later",)

    lazy: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        """Leave the slots of later fields empty: Python then asks `__getattr__` for them."""
        waiting = {}
        for name in self.lazy:
            value = getattr(self, name)
            if type(value) is _Later:
                waiting[name] = value.make
                object.__delattr__(self, name)
        object.__setattr__(self, "_later", waiting)

    def __getattr__(self, name: str) -> Any:
        if name not in self.lazy:
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)
        value = self._later[name]()
        object.__setattr__(self, name, value)
        self._later.pop(name, None)  # what it was made of may go
        return value
