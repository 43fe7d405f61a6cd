"""Which cubin a launched function is of.

CUPTI hands out each cubin as it is loaded, but not for which module. What a program loads by cuModuleLoad… is known by
that call. Of the runtime's modules, the names of all functions tell, and what the driver says of the launched one:
registers, shared, constant and local bytes, and the layout of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import NcuSwizzleError

STATIC_SHARED, REGISTERS = 1, 4  # in the attributes of a launch


@dataclass
class Kernels:
    """A cubin that was loaded: its number, and what it holds."""

    number: int
    file: Path

    @cached_property
    def cubin(self) -> Cubin | None:
        """The cubin; None if it cannot be read, or has no kernel."""
        try:
            return Cubin(self.file.read_bytes(), self.file.name)
        except (NcuSwizzleError, OSError):
            return None

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.cubin.kernels) if self.cubin else frozenset()

    def fits(self, event: dict[str, Any]) -> bool:
        """Return whether the launched kernel can be this cubin's."""
        kernel = event["kernel"]
        if self.cubin is None or kernel not in self.names:
            return False
        try:
            attributes = self.cubin.attributes(kernel)
        except NcuSwizzleError:
            return False
        given = [(offset, len(value or "") // 2) for offset, value in sorted(event["parameters"])]
        registers, shared = event["attributes"][REGISTERS], event["attributes"][STATIC_SHARED]
        same = registers in (attributes.registers, -1) and shared in (attributes.static_shared, -1)
        return same and given == [(slot.offset, slot.size) for slot in attributes.parameters]

    def code(self, kernel: str) -> tuple[bytes, ...]:
        """Return what decides a kernel's behaviour: its instructions and constants."""
        assert self.cubin is not None
        constants = sorted(self.cubin.constants(kernel).items())
        return (self.cubin.section(f".text.{kernel}"), *(content for _, content in constants))


class Modules:
    """The modules of one process, as they were loaded."""

    def __init__(self, file_of: Callable[[int], Path]) -> None:
        self._file_of = file_of
        self._cubins: list[Kernels] = []
        self._loads: dict[int, tuple[int, int]] = {}  # module handle → cubins that came with it
        self._modules: dict[int, dict[str, Any]] = {}
        self._chosen: dict[tuple[Any, ...], int | str] = {}

    def add(self, event: dict[str, Any]) -> None:
        if event["is"] == "cubin":
            self._cubins.append(Kernels(event["number"], self._file_of(event["number"])))
        elif event["is"] == "load":
            self._loads[event["module"]] = (event["from"], event["to"])
        else:
            loaded = self._loads.get(event["handle"])
            self._modules[event["number"]] = {**event, "loaded": loaded}

    def kernel(self, event: dict[str, Any]) -> int | str:
        """Return the number of the cubin that a launched kernel is of, or why it is not known."""
        if event["module"] not in self._modules:
            return "the driver does not name its module"
        key = (event["module"], event["kernel"])
        if key not in self._chosen:
            self._chosen[key] = self._choose(event, self._modules[event["module"]])
        return self._chosen[key]

    def _choose(self, event: dict[str, Any], module: dict[str, Any]) -> int | str:
        first, end = module["loaded"] or (0, len(self._cubins))
        fitting = [cubin for cubin in self._cubins[first:end] if cubin.fits(event)]
        named = frozenset(module["functions"])
        fitting = [cubin for cubin in fitting if cubin.names == named] or fitting
        return _only(fitting, event["kernel"])


def _only(cubins: Sequence[Kernels], kernel: str) -> int | str:
    """Return the only cubin's number, or the first one's if the kernel is the same in all of them."""
    if not cubins:
        return "no cubin that was loaded has it"
    if len(cubins) > 1 and len({cubin.code(kernel) for cubin in cubins}) > 1:
        return f"{len(cubins)} cubins that were loaded have a different kernel of that name"
    return cubins[0].number
