"""The kernels that the project knows, read from ``kernels/*/family.toml``.

A family is one problem solved by several variants that differ in their shared-memory layout. The catalogue is
plain data: nothing here compiles, launches or measures.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncu_swizzle import paths, shape
from ncu_swizzle.errors import BadCatalog, BadFile, BadProblem, UnknownKernel, UsageError
from ncu_swizzle.expressions import evaluate
from ncu_swizzle.files import brief, read_toml

Problem = dict[str, int]


def in_words(problem: Mapping[str, int]) -> str:
    """Return a problem as the command line takes it: ``batch=4 heads=16 seq=4096``."""
    return " ".join(f"{name}={size}" for name, size in problem.items())


@dataclass(frozen=True)
class Parameter:
    """One size of a problem: its default, and the values that the kernels can take."""

    name: str
    default: int
    help: str = ""
    minimum: int = 1
    multiple: int = 1

    @property
    def smallest(self) -> int:
        """The least value that the kernels can take."""
        return -(-max(self.minimum, 1) // self.multiple) * self.multiple

    def check(self, value: int) -> int:
        """Return the value, or raise BadProblem where the kernels cannot take it."""
        if value < self.smallest or value % self.multiple:
            raise BadProblem(
                f"{self.name}={value} is outside the limits: a multiple of {self.multiple}, at least {self.smallest}",
                f"--problem {self.name}={self.default}",
            )
        return value


@dataclass(frozen=True)
class Argument:
    """One parameter of the kernel: a buffer (``shape``), or an integer (``value``).

    A buffer goes to the kernel as a pointer, a matrix also as a CUtensorMap (``tensor_map``) with the variant's box.
    """

    name: str
    dtype: str
    shape: tuple[str, ...] = ()
    value: str = ""
    output: bool = False
    tolerance: float = 0.0
    tensor_map: bool = False


@dataclass(frozen=True)
class Kernel:
    """One variant: a ``.cu`` whose entry bears the variant's name (- as _), or a library's kernel (``library``)."""

    name: str
    title: str
    lesson: str
    article: str = ""
    baseline: str = ""
    library: bool = False
    degree: Mapping[str, float] = field(default_factory=dict)
    shared: str = ""  # bytes of dynamic shared memory, where they are not the family's
    box: tuple[int, ...] = ()  # of tensor maps: rows and columns, in elements
    swizzle: int = 0  # of tensor maps: 0, 32, 64 or 128 bytes

    @property
    def entry(self) -> str:
        """The name of the kernel's function."""
        return self.name.replace("-", "_")


@dataclass(frozen=True)
class Family:
    """One problem, how it is launched and checked, and the kernels that solve it."""

    name: str
    title: str
    folder: Path
    reference: str
    flops: str  # operations, and bytes of global memory that have to move; 0 where they are not what limits it
    bytes: str
    parameters: tuple[Parameter, ...]
    grid: tuple[str, str, str]
    block: tuple[str, str, str]
    shared: str  # bytes of dynamic shared memory
    compute_capability: tuple[int, ...]  # the least that it runs on
    headers: tuple[str, ...]  # of other projects, see headers.py
    arguments: tuple[Argument, ...]
    kernels: tuple[Kernel, ...]

    def problem(self, sizes: Mapping[str, int] | None = None) -> Problem:
        """Return the whole problem, the defaults overridden by `sizes`; raise BadProblem."""
        sizes = dict(sizes or {})
        known = {parameter.name for parameter in self.parameters}
        for name in sizes.keys() - known:
            raise BadProblem(
                f"the family {self.name} has no parameter {name!r}",
                f"its parameters: {', '.join(f'{p.name} ({p.help})' for p in self.parameters)}",
            )
        return {p.name: p.check(sizes.get(p.name, p.default)) for p in self.parameters}

    def geometry(self, problem: Problem) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the grid and the block, three numbers each."""
        return (
            tuple(evaluate(size, problem) for size in self.grid),
            tuple(evaluate(size, problem) for size in self.block),
        )

    def shared_memory(self, kernel: Kernel, problem: Problem) -> int:
        """Return the bytes of dynamic shared memory that a block of the kernel takes."""
        return evaluate(kernel.shared or self.shared, problem)

    def source(self, kernel: Kernel) -> Path:
        """Return the kernel's own ``.cu`` file; transpose-xor of the family transpose is in ``xor.cu``."""
        return self.folder / f"{kernel.name.removeprefix(f'{self.name}-')}.cu"

    def source_texts(self) -> dict[str, str]:
        """Return the text of every source that the family is built from, by its path, such as
        ``kernels/attention/kernel2.cu``.
        """
        root = self.folder.parent.parent
        files = sorted([*include_folder(self.folder).glob("*.cuh"), *self.folder.glob("*.cu*")])
        return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}

    def library(self) -> Kernel | None:
        """Return the library's kernel for the same problem, if the family names one."""
        return next((kernel for kernel in self.kernels if kernel.library), None)


def include_folder(family: Path) -> Path:
    """Return the folder of helpers that the families beside this one share."""
    return family.parent / "common"


@dataclass(frozen=True)
class Catalog:
    """All families of one or more folders."""

    families: tuple[Family, ...]

    def __iter__(self) -> Iterator[tuple[Family, Kernel]]:
        return ((family, kernel) for family in self.families for kernel in family.kernels)

    def find(self, name: str) -> tuple[Family, Kernel]:
        """Return a kernel and its family by the kernel's name; raise UnknownKernel with the nearest one."""
        by_name = {kernel.name: (family, kernel) for family, kernel in self}
        if name in by_name:
            return by_name[name]
        near = difflib.get_close_matches(name, by_name, n=1, cutoff=0.5)
        raise UnknownKernel(
            f"unknown kernel {name!r}" + (f", did you mean {near[0]!r}?" if near else ""),
            "ncu-swizzle list shows all kernels",
        )

    def find_together(self, names: Sequence[str]) -> tuple[Family, list[Kernel]]:
        """Return kernels of one family; raise UnknownKernel, or UsageError where they are of several."""
        found = [self.find(name) for name in names]
        family = found[0][0]
        for other, kernel in found:
            if other is not family:
                raise UsageError(f"{kernel.name} is not of the family {family.name}", "name kernels of one family")
        return family, [kernel for _, kernel in found]


def load(*folders: Path) -> Catalog:
    """Read every family.toml one level below the folders (the shipped catalogue by default)."""
    files = [
        file for folder in folders or (paths.kernels(),) for file in sorted(folder.resolve().glob("*/family.toml"))
    ]
    catalog = Catalog(tuple(_read(file) for file in files))
    names = [kernel.name for _, kernel in catalog]
    for name in {name for name in names if names.count(name) > 1}:
        raise BadCatalog(f"two kernels are called {name!r}", "rename one of them in its family.toml")
    return catalog


def _read(file: Path) -> Family:
    try:
        family = _family(read_toml(file), file.parent)
        if wrong := shape.mismatch(family):
            raise ValueError(wrong)
    except (BadFile, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadCatalog(
            f"{file} cannot be used: {type(error).__name__}: {brief(error)}",
            "compare it with kernels/attention/family.toml; CONTRIBUTING.md explains each entry",
        ) from error
    return family


def _family(table: dict[str, Any], folder: Path) -> Family:
    head, launch = table["family"], table["launch"]
    grid, block = launch["grid"], launch["block"]
    return Family(
        name=head["name"],
        title=head["title"],
        folder=folder,
        reference=head["reference"],
        flops=str(head.get("flops", 0)),
        bytes=str(head.get("bytes", 0)),
        parameters=tuple(Parameter(name, **entry) for name, entry in table["problem"].items()),
        grid=(str(grid[0]), str(grid[1]), str(grid[2])),
        block=(str(block[0]), str(block[1]), str(block[2])),
        shared=str(launch.get("shared", 0)),
        compute_capability=tuple(int(part) for part in head.get("compute_capability", "8.0").split(".")),
        headers=tuple(head.get("headers", ())),
        arguments=tuple(_argument(entry) for entry in table["argument"]),
        kernels=tuple(Kernel(**{**entry, "box": tuple(entry.get("box", ()))}) for entry in table["variant"]),
    )


def _argument(entry: dict[str, Any]) -> Argument:
    sizes = tuple(str(size) for size in entry.get("shape", ()))
    return Argument(**{**entry, "shape": sizes, "value": str(entry.get("value", ""))})
