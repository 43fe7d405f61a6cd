"""What passes between us and the child that compiles: a function with its arguments, and what became of it, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CODE = "kernel.cubin"  # beside the answer


@dataclass(frozen=True)
class Given:
    """An argument: a buffer (`shape`, in elements), a number with a dtype, or a literal, as it was typed."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    value: str = ""
    box: tuple[int, ...] = ()  # of a buffer that goes to the kernel through a tensor map
    swizzle: int = 0  # of that map, in bytes
    record: str = ""  # of a buffer of bytes: the name that its structured dtype has in the file


@dataclass(frozen=True)
class CompileRequest:
    """A function of a Python file, what it is called with, and what for. `options` are the compiler's."""

    file: str
    function: str
    arch: str = "sm_90"
    arguments: tuple[Given, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    grid: tuple[str, ...] = ()  # over the sizes, and the function's own integers; empty: not given
    block: tuple[int, ...] = ()  # empty: not given
    shared: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function as users name it."""
        return f"{Path(self.file).name}::{self.function}"

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> CompileRequest:
        """Return the request that `as_json` wrote."""
        arguments = tuple(Given(**{**each, **_tuples(each, "shape", "box")}) for each in content["arguments"])
        return cls(**{**content, **_tuples(content, "grid", "block"), "arguments": arguments})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class KernelParameter:
    """A parameter of the compiled kernel: the buffer called `name`, or a number with a dtype."""

    name: str
    dtype: str = ""
    value: str = ""
    scratch: int = 0  # bytes of memory that the compiler wants for itself
    box: tuple[int, ...] = ()  # of a buffer that is passed as a tensor map: rows and columns
    swizzle: int = 0  # of that map, in bytes
    passed: bool = True  # no parameter, if not: memory that only a struct points to


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled function: its entry in the cubin, how it is launched, and its parameters in order."""

    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    parameters: tuple[KernelParameter, ...]
    compiler: str  # with its version
    notes: tuple[str, ...] = ()
    intermediate: str = ""  # the compiler's own view of the kernel, such as TTGIR
    explicit: bool = False  # whether the layouts in it are the author's
    cluster: tuple[int, ...] = ()  # of the launch; empty if only the cubin can have one

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> CompiledKernel:
        """Return the kernel that `as_json` wrote."""
        parameters = tuple(KernelParameter(**{**each, **_tuples(each, "box")}) for each in content["parameters"])
        return cls(**{**content, **_tuples(content, "grid", "block", "notes", "cluster"), "parameters": parameters})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _tuples(content: Mapping[str, Any], *names: str) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(content[name]) for name in names}


Configuration = Sequence[str]  # NAME=VALUE each
