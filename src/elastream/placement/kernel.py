"""Kernels: hot loops that are compiled when that pays, and plain Python when it does not.

Loading Numba takes half a second and compiling takes seconds, once a machine; a small problem is
solved in milliseconds without either. A :class:`Kernel` keeps both forms of one function and
:meth:`Kernel.for_operations` picks. Compiled code is cached on disk, next to the module.

Numba is optional (``elastream[fast]``). Without it every kernel is plain, and one line in the log
says what to install once a kernel has seconds of work.

A kernel works on scalars and NumPy arrays and may call other kernels of its own module: the
cache notices a change of the module, not one of another. Both forms return the same: a kernel
sorts by ``kind="mergesort"``, sums floating point in a loop, and takes functions from ``math``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Generic, ParamSpec, TypeVar, cast

from elastream.extras import install_command

_log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

_PLAIN_OPERATIONS = 400_000
"""Up to this many inner steps plain Python takes less time than loading the compiler."""
_SLOW_OPERATIONS = 4_000_000
"""This many inner steps take plain Python 2 s: single-step of 5,000 tasks on 60 nodes takes 2.1 s,
and 0.013 s compiled."""
_reported: set[str] = set()
"""Advice already logged in this process."""


class Kernel(Generic[P, R]):
    """One function in two forms, plain and compiled. Called, it is plain."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.plain = function
        self.__doc__ = function.__doc__
        self._compiled: Callable[P, R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the plain form."""
        return self.plain(*args, **kwargs)

    @property
    def compiled(self) -> Callable[P, R]:
        """The function as machine code, compiled at its first call; plain without Numba."""
        if self._compiled is None:
            try:
                from numba import njit
            except ImportError:
                return self.plain
            self._compiled = cast("Callable[P, R]", njit(cache=True, nogil=True)(self._linked()))
        return self._compiled

    def for_operations(self, operations: float) -> Callable[P, R]:
        """Return the form that finishes first for this many inner steps."""
        if operations <= _PLAIN_OPERATIONS and sys.modules.get("numba") is None:
            return self.plain
        run = self.compiled
        if run is self.plain and operations >= _SLOW_OPERATIONS:
            _report_once(
                "this plan takes long without Numba, up to 100 times as long as with it: "
                + install_command("fast")
            )
        return run

    def _linked(self) -> Callable[P, R]:
        """Return the function with the kernels it calls replaced by their compiled form."""
        plain = cast("FunctionType", self.plain)
        names = {
            name: callee.compiled
            for name in plain.__code__.co_names
            if isinstance(callee := plain.__globals__.get(name), Kernel)
        }
        if not names:
            return self.plain
        linked = FunctionType(plain.__code__, {**plain.__globals__, **names}, plain.__name__)
        linked.__qualname__, linked.__module__ = plain.__qualname__, plain.__module__
        return cast("Callable[P, R]", linked)


def _report_once(line: str) -> None:
    if line not in _reported:
        _reported.add(line)
        _log.warning(line)


def kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Make a kernel of ``function``."""
    return Kernel(function)
