"""Fields and properties that are made when they are first read.

Most of what a result can tell is never asked for. A frozen dataclass names such fields in ``lazy``
and may then be given ``later(make)`` in their place: reading, copying and pickling see the value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

__all__ = ["Lazily", "later", "once"]

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - used like property
    """``functools.cached_property``, which takes a lock for each value up to Python 3.11.

    Values are pure functions of the object: should two threads make one, either will do.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.make(instance)
        return value


class _Later(partial[Any]):
    """A function without arguments; as a `partial` it takes no Python to be made."""

    __slots__ = ()


later: Callable[[Callable[[], Any]], Any] = _Later
"""Stand in for what the function given returns."""


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
        drop = object.__delattr__
        for name in self.lazy:
            value = getattr(self, name)
            if type(value) is _Later:
                waiting[name] = value
                drop(self, name)
        object.__setattr__(self, "_later", waiting)

    def __getattr__(self, name: str) -> Any:
        if name not in self.lazy:
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)
        make = self._later.get(name)
        if make is None:  # another thread was quicker
            return object.__getattribute__(self, name)
        object.__setattr__(self, name, make())
        self._later.pop(name, None)  # what it was made of may go
        return object.__getattribute__(self, name)
