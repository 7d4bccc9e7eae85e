"""Our `NamedTuple` gives what the one of `typing` gives."""

from __future__ import annotations

import copy
import pickle
import typing

import pytest

from git_agentos.util.named_tuple import NamedTuple


class Ours(NamedTuple):
    """A value."""

    name: str
    size: int | None = None
    parts: tuple[Ours, ...] = ()

    @classmethod
    def empty(cls) -> Ours:
        """One without a name."""
        return cls("")

    @property
    def is_empty(self) -> bool:
        return not self.name

    def __str__(self) -> str:
        return self.name or "nothing"


class Theirs(typing.NamedTuple):
    """A value."""

    name: str
    size: int | None = None
    parts: tuple[Ours, ...] = ()


def test_what_typing_gives() -> None:
    assert Ours._fields == Theirs._fields and Ours._field_defaults == Theirs._field_defaults
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert Ours.__mro__ == (Ours, tuple, object)
    assert (Ours.__module__, Ours.__qualname__, Ours.__doc__) == (__name__, "Ours", Theirs.__doc__)
    assert repr(Ours("a", 1)) == repr(Theirs("a", 1)).replace("Theirs", "Ours")
    assert Ours("a", parts=(Ours("b"),))._asdict() == Theirs("a", parts=(Ours("b"),))._asdict()
    assert Ours("a")._replace(size=2) == ("a", 2, ())


def test_what_the_class_adds() -> None:
    assert Ours.empty() == Ours("") and Ours.empty().is_empty
    assert (str(Ours("a")), str(Ours.empty())) == ("a", "nothing")


def test_copies() -> None:
    value = Ours("a", 1, (Ours("b"),))
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
    assert type(copy.copy(value)) is Ours


def test_what_typing_refuses() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Ours()  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Ours("a").name = "b"  # type: ignore[misc]
