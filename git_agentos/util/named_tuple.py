"""`NamedTuple` as `typing` has it, defined in a third of the time.

The one of `typing` compiles each annotation that is a string, and with postponed annotations all of them are strings. A
small checkpoint defines some sixty of these classes before it can begin. A class that is generic, or whose annotations
are needed as types, needs the one of `typing`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Definition(type):
        """Makes a named tuple of the body of a class."""

        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            annotations = namespace["__annotations__"]
            defaults = [namespace[field] for field in annotations if field in namespace]
            made = namedtuple(name, annotations, defaults=defaults, module=namespace["__module__"])
            for key, value in namespace.items():
                if key != "__module__" and key not in annotations:
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Definition):
        """The base of a class whose annotated names become the fields of a tuple."""
