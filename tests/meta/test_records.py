"""Frozen classes of ``lancecy.records`` behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from lancecy.records import dataclass as made_here

Decorator = Callable[[type], type]

BOTH = [
    (maker(frozen=True, slots=slots), f"{name}, {'slots' if slots else 'dict'}")
    for maker, name in ((made_here, "lancecy"), (dataclasses.dataclass, "standard library"))
    for slots in (True, False)
]
each_maker = pytest.mark.parametrize("maker", [maker for maker, _ in BOTH], ids=[name for _, name in BOTH])


@made_here(frozen=True, slots=True)
class Pickled:
    x: int
    y: list[int] = dataclasses.field(default_factory=list)


@made_here(frozen=True, slots=True)
class Below(Pickled):
    z: str = "z"


@made_here(frozen=True)
class Holder:
    held: Pickled


def _point(maker: Decorator) -> Any:
    class Point:
        """A point."""

        kind: ClassVar[str] = "flat"
        x: int
        y: int = 0
        tags: list[str] = dataclasses.field(default_factory=list, compare=False)
        note: str = dataclasses.field(default="", repr=False, hash=False)
        total: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.x + self.y)

    return maker(Point)


@each_maker
def test_fields_come_from_arguments_and_defaults(maker: Decorator) -> None:
    point = _point(maker)
    one, other = point(1), point(x=2, y=3, tags=["a"], note="n")
    assert (one.x, one.y, one.tags, one.note, one.total) == (1, 0, [], "", 1)
    assert (other.x, other.y, other.tags, other.note, other.total) == (2, 3, ["a"], "n", 5)
    assert point(1).tags is not point(1).tags
    assert point.kind == "flat"
    with pytest.raises(TypeError, match="x"):
        point()
    with pytest.raises(TypeError, match="w"):
        point(1, w=2)


@each_maker
def test_the_signature_names_all_arguments(maker: Decorator) -> None:
    signature = inspect.signature(_point(maker))
    assert list(signature.parameters) == ["x", "y", "tags", "note"]
    assert signature.parameters["y"].default == 0
    assert signature.parameters["x"].annotation == "int"
    assert signature.return_annotation in ("None", None)


@each_maker
def test_objects_are_compared_hashed_and_shown_by_their_fields(maker: Decorator) -> None:
    point = _point(maker)
    assert point(1, 2, ["a"]) == point(1, 2)
    assert point(1, 2) != point(1, 3)
    assert point(1, 2, note="a") != point(1, 2)
    assert hash(point(1, 2, note="a")) == hash(point(1, 2))
    assert point(1) != (1, 0, "", 1)
    assert repr(point(1, 2)).endswith("Point(x=1, y=2, tags=[], total=3)")


@each_maker
def test_fields_cannot_be_assigned_or_deleted(maker: Decorator) -> None:
    one = _point(maker)(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.x
    assert one.x == 1


@each_maker
def test_a_nan_equals_itself_as_in_tuples(maker: Decorator) -> None:
    class Number:
        value: float

    number: Any = maker(Number)
    nan = float("nan")
    assert number(nan) == number(nan)


@each_maker
def test_methods_of_the_class_are_kept(maker: Decorator) -> None:
    class Own:
        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    own: Any = maker(Own)
    assert (repr(own(1)), own(1) == 5, hash(own(1))) == ("own", True, 7)


@pytest.mark.parametrize("maker", [made_here, dataclasses.dataclass], ids=["lancecy", "standard library"])
def test_options_mean_the_same(maker: Any) -> None:
    class Named:
        x: int
        y: int = 1

    named = maker(frozen=True, slots=True, kw_only=True, eq=False, repr=False)(Named)
    with pytest.raises(TypeError):
        named(1)
    assert named(y=2, x=1).y == 2
    assert named(x=1) != named(x=1)
    assert "object at" in repr(named(x=1))


@each_maker
def test_a_class_without_fields(maker: Decorator) -> None:
    class Empty:
        pass

    empty: Any = maker(Empty)
    assert empty() == empty()
    assert repr(empty()).endswith("Empty()")
    assert hash(empty()) == hash(empty())


def test_other_attributes_cannot_be_added() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Pickled(1).new = 2  # type: ignore[attr-defined]


def test_classes_that_are_not_frozen_can_be_changed() -> None:
    @made_here(slots=True)
    class Counter:
        count: int = 0

    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)


def test_subclasses_add_fields() -> None:
    below = Below(1, [2], "three")
    assert below == Below(x=1, y=[2], z="three")
    assert below != Pickled(1, [2])
    assert repr(below) == "Below(x=1, y=[2], z='three')"
    with pytest.raises(dataclasses.FrozenInstanceError):
        below.x = 3  # type: ignore[misc]


def test_objects_are_pickled_copied_and_replaced() -> None:
    below = Below(1, [2], "three")
    assert pickle.loads(pickle.dumps(below)) == below
    assert copy.deepcopy(below) == below
    assert copy.deepcopy(below).y is not below.y
    assert dataclasses.replace(below, z="four") == Below(1, [2], "four")
    assert dataclasses.asdict(below) == {"x": 1, "y": [2], "z": "three"}
    assert dataclasses.astuple(below) == (1, [2], "three")
    match below:
        case Below(x, y, z):
            assert (x, y, z) == (1, [2], "three")


def test_the_types_of_arguments_are_found() -> None:
    assert typing.get_type_hints(Holder.__init__) == {"held": Pickled, "return": type(None)}


def test_the_standard_library_makes_frozen_subclasses() -> None:
    class Child(Below):
        w: int = 0

    child: Any = dataclasses.dataclass(frozen=True)(Child)
    assert child(1, w=2) == child(1, [], "z", 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        child(1).w = 3
    with pytest.raises(TypeError, match="frozen"):
        dataclasses.dataclass(Child)
