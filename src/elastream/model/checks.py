"""Checks that turn loose values into trusted ones, or name the field that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from elastream.model.errors import ProblemError

if TYPE_CHECKING:
    from numpy.typing import NDArray


Number = int | float
"""A finite amount. Whole numbers stay whole, so that bytes in are bytes out."""

Numbers: TypeAlias = "Sequence[Number] | NDArray[Any]"
"""Several amounts, as people and programs have them."""

_LONGEST_SHOWN = 60
_LARGEST = 1e100
"""Amounts above this are refused: their sums and products would leave the range of a float."""
_SMALLEST = 1e-100
"""Nothing smaller may be divided by, for the same reason."""


def abbreviate(value: object) -> str:
    """Return ``value`` as a short printable piece of an error message."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # a number or a nest too large to print
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def non_negative(field: str, value: object) -> Number:
    """Return ``value`` as a finite number that is not negative."""
    if type(value) is int:
        number: Number = value
    elif type(value) is float:
        number = value
    elif isinstance(value, bool) or not isinstance(value, Real):
        raise ProblemError(field, f"{abbreviate(value)} is not a number")
    else:
        number = int(value) if isinstance(value, Integral) else float(value)
    if number < 0:
        raise ProblemError(field, f"{abbreviate(value)} is negative; give zero or more")
    if number > _LARGEST or number != number:
        raise ProblemError(field, f"{abbreviate(value)} is not finite, or above 1e100")
    return number


def positive(field: str, value: object) -> Number:
    """Return ``value`` as a finite number above zero."""
    number = non_negative(field, value)
    if number == 0:
        raise ProblemError(field, "0 is not positive; give more than zero")
    if number < _SMALLEST:
        raise ProblemError(field, f"{abbreviate(value)} is too close to zero; give 1e-100 or more")
    return number


def zero_or_more(field: str, value: object) -> Number:
    """Return ``value`` as an amount that may be divided by unless it is zero."""
    return positive(field, value) if non_negative(field, value) else 0


def non_negatives(field: str, values: object, *, length: int | None = None) -> tuple[Number, ...]:
    """Return ``values`` as a tuple of finite, non-negative numbers, ``length`` of them."""
    numbers = tuple(as_list(field, values))
    if length is not None and len(numbers) != length:
        raise ProblemError(field, f"has {len(numbers)} entries where {length} are needed")
    for number in numbers:
        kind = type(number)
        if not ((kind is float or kind is int) and 0 <= number <= _LARGEST):
            break
    else:
        return numbers
    return tuple(non_negative(f"{field}[{i}]", number) for i, number in enumerate(numbers))


def count(field: str, value: object, *, least: int = 0, most: int | None = None) -> int:
    """Return ``value`` as a whole number between ``least`` and ``most``."""
    is_whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole:
        raise ProblemError(field, f"{abbreviate(value)} is not a whole number")
    whole: int = int(value)  # type: ignore[call-overload]
    if whole < least:
        raise ProblemError(field, f"{abbreviate(value)} is too small; the least is {least}")
    if most is not None and whole > most:
        raise ProblemError(field, f"{abbreviate(value)} is too large; the most is {most}")
    return whole


def expect_version(where: str, version: object, *, newest: int, oldest: int = 1) -> None:
    """Refuse a file whose version cannot be read here, and say what can read a newer one."""
    number = version if isinstance(version, int) and not isinstance(version, bool) else -1
    if oldest <= number <= newest:
        return
    reads = f"{newest}" if oldest == newest else f"{oldest} to {newest}"
    why = f"has version {abbreviate(version)}; this elastream reads {reads}"
    if number > newest:
        why += ": read it with the newer elastream that wrote it"
    raise ProblemError(where, why)


def as_list(field: str, values: object) -> Sequence[Any]:
    """Return ``values``, a list or an array, as a sequence."""
    to_list = getattr(values, "tolist", None)
    if callable(to_list):  # a NumPy array
        values = to_list()
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise ProblemError(field, f"{abbreviate(values)} is not a list")
    return values
