"""The one reader of plain data: what fits, what does not, and what is said about it."""

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from hmt.errors import UserError
from hmt.plain import LIMIT, from_plain, json_object, to_plain


@dataclass(frozen=True)
class Part:
    size: int


@dataclass(frozen=True)
class Whole:
    """A field of every kind that is read anywhere."""

    count: int = 0
    rate: float = 0.0
    is_on: bool = False
    name: str = ""
    either: int | tuple[int, int] = 0
    pair: tuple[float, float] = (0.0, 0.0)
    many: tuple[int, ...] = ()
    maybe: str | None = None
    numbers: list[float] = field(default_factory=list)
    grid: list[list[int]] = field(default_factory=list)
    choice: Literal["a", "b"] = "a"
    table: dict[str, Any] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    part: Part | None = None
    parts: list[Part] = field(default_factory=list)
    named: dict[str, Part] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"count": 3}, 3),
        ({"rate": 3}, 3.0),
        ({"is_on": True}, True),
        ({"either": 3}, 3),
        ({"either": [1, 6]}, (1, 6)),
        ({"pair": [1, 0.5]}, (1.0, 0.5)),
        ({"many": []}, ()),
        ({"many": [1, 2, 3]}, (1, 2, 3)),
        ({"maybe": None}, None),
        ({"maybe": "x"}, "x"),
        ({"numbers": [1, 2.5]}, [1.0, 2.5]),
        ({"grid": []}, []),
        ({"grid": [[1], [], [2, 3]]}, [[1], [], [2, 3]]),
        ({"choice": "b"}, "b"),
        ({"table": {"x": [1, None]}}, {"x": [1, None]}),
        ({"words": {"x": "y"}}, {"x": "y"}),
        ({"parts": [{"size": 1}, {"size": 2}]}, [Part(1), Part(2)]),
        ({"named": {"x": {"size": 1}}}, {"x": Part(1)}),
    ],
)
def test_what_fits_is_read(given: dict[str, Any], made: Any) -> None:
    (name,) = given
    found = getattr(from_plain(Whole, given), name)
    assert found == made and type(found) is type(made)
    if name == "numbers":
        assert {type(number) for number in found} == {float}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"count": 1.5}, '"here.count" is 1.5; it must be a whole number.'),
        ({"count": True}, '"here.count" is true; it must be a whole number.'),
        ({"count": "3"}, '"here.count" is "3"; it must be a whole number.'),
        ({"count": None}, '"here.count" is null; it must be a whole number.'),
        ({"count": int(LIMIT)}, "a whole number, finite and below 9,007,199,254,740,992."),
        ({"rate": float("inf")}, '"here.rate" is inf; it must be a number, finite and below'),
        ({"rate": float("nan")}, '"here.rate" is nan; it must be a number, finite and below'),
        ({"rate": -(10**400)}, "it must be a number, finite and below"),
        ({"is_on": 1}, '"here.is_on" is 1; it must be true or false.'),
        ({"name": 3}, '"here.name" is 3; it must be text.'),
        ({"either": [1]}, "is [1]; it must be a whole number or a list of 2 whole numbers."),
        ({"pair": [1, "2"]}, 'is [1, "2"]; it must be a list of 2 numbers.'),
        ({"many": "12"}, 'is "12"; it must be a list of whole numbers.'),
        ({"maybe": 1}, "is 1; it must be text or null."),
        ({"numbers": [1, float("nan")]}, "a list of numbers, finite and below"),
        ({"numbers": [1, True]}, "is [1, true]; it must be a list of numbers."),
        ({"grid": [1]}, "is [1]; it must be a list of lists of whole numbers."),
        ({"grid": [[0.5]]}, "is [[0.5]]; it must be a list of lists of whole numbers."),
        ({"choice": "c"}, 'is "c"; it must be "a" or "b".'),
        ({"table": 3}, '"here.table" is 3; it must be a table.'),
        ({"words": {"x": 1}}, "it must be a table"),
        ({"parts": [{"size": 1}, {"size": "2"}]}, '"here.parts.2.size" is "2"'),
        ({"parts": [3]}, '"here.parts.1" is 3; it must be a table.'),
        ({"parts": 3}, '"here.parts" is 3; it must be a list of tables.'),
        ({"named": {"x": {}}}, '"here.named.x.size" is missing.'),
        ({"colour": 1}, '"here.colour" is unknown; allowed are count, rate, is_on,'),
    ],
)
def test_what_does_not_fit_is_named(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        from_plain(Whole, given, "here")
    assert sentence in str(caught.value)


def test_long_values_are_cut_short_in_messages() -> None:
    with pytest.raises(UserError) as caught:
        from_plain(Whole, {"count": list(range(1000))})
    assert len(str(caught.value)) < 120


def test_a_missing_key_comes_with_a_remedy() -> None:
    with pytest.raises(UserError, match=r'^"size" is missing\.$'):
        from_plain(Part, {})
    with pytest.raises(UserError, match=r'^"parts\.1\.size" is missing; give parts\.1\.size\.$'):
        from_plain(Whole, {"parts": [{}]}, missing="give {key}.")


def test_what_is_written_is_read_again() -> None:
    whole = Whole(either=(1, 6), many=(1,), parts=[Part(1)], named={"x": Part(2)}, table={"y": 1})
    assert from_plain(Whole, to_plain(whole)) == whole
    assert to_plain({"a": (Part(1), 2)}) == {"a": [{"size": 1}, 2]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", r"\[1\], not a JSON"),
        ("7", "7, not a JSON"),
        ("null", "null, not a JSON"),
    ],
)
def test_what_is_no_json_object_is_named(text: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        json_object(text)
