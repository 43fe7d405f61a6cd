"""Families of kernels, their arguments and launches, and `Target`: one kernel of a family at one problem."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import BadFile, BadProblem, Typed
from ncu_swizzle.base.files import read_bytes, read_source, write_json
from ncu_swizzle.base.paths import data_root
from ncu_swizzle.base.texts import encodable
from ncu_swizzle.base.validate import LIMIT, from_plain
from ncu_swizzle.kernels import limits
from ncu_swizzle.kernels.limits import LaunchShape, evaluate

# A family of kernels: one problem, solved by several variants that differ in their shared-memory layout.
#
# Shipped families come from ``kernels/*/family.toml``, see `catalog`; a user's ``.cu`` becomes a family too, see
# `descriptions.family_of_spec`.

Problem = dict[str, int]
BINARIES = (".cubin", ".ptx")  # already compiled: they can only be emulated
SOURCE = ".cu"
FILES = (SOURCE, *BINARIES)
PYTHON, INSIDE = ".py", "::"  # a function of such a file is named as my.py::function
COMMON = "common"  # the folder of shared headers, next to the families' folders

DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int32", "int64", "int16", "int8",
    "uint32", "uint64", "uint16", "uint8", "bool", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
ML_DTYPES = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}  # bytes of those that NumPy lacks
BYTES = "bytes"  # in place of a dtype: a parameter passed by value whose bytes are given, such as a struct
STRUCT = "struct"  # in place of a dtype: a parameter passed by value whose fields are given, see `fills`
LITERAL = "literal"  # in place of a dtype: a value that a function in Python gets as it is, see `arguments`


@dataclass(frozen=True)
class Parameter:
    """One size of a problem: its default, and the values that the kernels support."""

    name: str
    default: int
    help: str = ""
    minimum: int = 1
    multiple: int = 1

    @property
    def smallest(self) -> int:
        """The smallest value that the kernels support."""
        return -(-max(self.minimum, 1) // self.multiple) * self.multiple

    def halved(self, value: int) -> int:
        """Return half of a value, rounded down to one that the kernels support."""
        return max(self.smallest, value // 2 // self.multiple * self.multiple)

    def validated(self, value: int) -> int:
        """Return the value; raise BadProblem if the kernels do not support it."""
        if value >= LIMIT:
            raise BadProblem(f"{self.name} has more than 64 bits", Typed(f"--problem {self.name}={self.default}"))
        if value < self.smallest or value % self.multiple:
            raise BadProblem(
                f"{self.name}={value} is not supported: it must be a multiple of {self.multiple} and at least "
                f"{self.smallest}",
                Typed(f"--problem {self.name}={self.default}"),
            )
        return value


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One parameter of the kernel: a buffer (``shape``), a number (``value``), or a struct (dtype `BYTES`, `STRUCT`).

    A buffer is passed as a pointer; a matrix can also be passed as a CUtensorMap (``tensor_map``) with its own box, or
    the variant's. `fill` is what a buffer holds before a launch, see `fills`; by default normal random numbers for an
    input, NaN for an output. A struct has as many zero bytes as its value says, those of the file in its fill, or
    fields.
    """

    name: str
    dtype: str
    shape: tuple[str, ...] = ()
    value: str = ""
    output: bool = False
    tolerance: float = 0.0
    tensor_map: bool = False
    fill: str = ""
    box: tuple[int, ...] = ()  # of its tensor map: rows and columns, in elements
    swizzle: int = 0  # of its tensor map: 0, 32, 64 or 128 bytes
    passed: bool = True  # no parameter, if not: memory that fields of structs point to

    @property
    def file(self) -> str:
        """The file that it takes its content from; empty if there is none."""
        return self.fill if self.fill.endswith(".npy") or self.dtype == BYTES else ""


@dataclass(frozen=True, kw_only=True)
class LaunchTexts:
    """How kernels are launched: expressions over the problem's sizes. Empty in a kernel: as its family says."""

    grid: tuple[str, ...] = ()  # three, or none
    block: tuple[str, ...] = ()  # three, or none
    shared: str = ""  # bytes of dynamic shared memory
    cluster: tuple[int, ...] = ()  # blocks along each axis, of a launch whose cubin does not say it


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One variant: a ``.cu`` whose entry has the variant's name (with _ for -), or a library's kernel (``library``).

    `function` is the entry's name if it differs from the variant's; `options` are nvcc's, or those of the compiler that
    a function in Python is for, ``NAME=VALUE`` each.
    """

    name: str
    title: str
    lesson: str
    article: str = ""
    baseline: str = ""
    library: bool = False
    degree: Mapping[str, float] = field(default_factory=dict)
    launch: LaunchTexts = LaunchTexts()  # what differs from the family's
    box: tuple[int, ...] = ()  # of tensor maps without their own
    swizzle: int = 0  # of tensor maps without their own
    boxes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of arguments that this kernel takes as maps
    arch: str = ""  # the architecture whose instructions it uses, such as sm_90a; empty: any
    file: str = ""  # in the family's folder; for the default see `Family.source`
    function: str = ""  # plain, demangled or mangled, see `symbols.find`
    options: tuple[str, ...] = ()
    cubin: str = ""  # the file that its front end compiled it to, if it is written in Python

    @property
    def entry(self) -> str:
        """The name of the kernel's function."""
        return self.function or self.name.replace("-", "_")

    def boxed(self, argument: Argument) -> Argument:
        """Return an argument as this kernel takes it: as a tensor map if `boxes` names it, or if it is one; with this
        kernel's box and swizzle unless it has its own.
        """
        if box := self.boxes.get(argument.name):
            return replace(argument, tensor_map=True, box=box, swizzle=self.swizzle)
        own = not argument.tensor_map or argument.box
        return argument if own else replace(argument, box=self.box, swizzle=self.swizzle)


@dataclass(frozen=True, kw_only=True)
class Family:
    """One problem, how to launch and check it, and the kernels that solve it.

    A `standalone` family has no folder in a catalogue: it is a single file somewhere, plus what that includes.
    """

    name: str
    title: str
    folder: Path
    reference: str  # see `references`; empty: outputs are not checked
    flops: str  # operations, and bytes of global memory that must move; 0 if they are not the limit
    bytes: str
    parameters: tuple[Parameter, ...]
    launch: LaunchTexts
    compute_capability: tuple[int, ...]  # the lowest that it runs on
    headers: tuple[str, ...]  # of other projects, see `kernels.toolchain`
    arguments: tuple[Argument, ...]
    kernels: tuple[Kernel, ...]
    options: tuple[str, ...] = ()  # nvcc's, for all kernels
    standalone: bool = False
    origin: str = ""  # where it is described, for messages; empty: on the command line
    sample: int | None = None  # the seed of random inputs that stand for the data if counts depend on them
    arch: str = ""  # compiled for this architecture, such as sm_90a; empty: the GPU's, or the emulator's
    untrusted: bool = False  # a project file names its Python source, which compiling it would execute
    top: str = ""  # the folder that source paths are relative to, if it is not the one that follows from `folder`
    never_run: bool = False  # on hardware: built and emulated alone

    @property
    def shipped(self) -> bool:
        """Whether it ships with ncu-swizzle, whose kernels were recorded."""
        return not self.standalone and self.folder.parent == paths.kernels()

    @property
    def root(self) -> Path:
        """The folder that source paths are relative to."""
        own = self.folder if self.standalone else self.folder.parent.parent
        return Path(self.top) if self.top else own

    def problem(self, sizes: Mapping[str, int] | None = None) -> Problem:
        """Return the complete problem, the defaults overridden by `sizes`; raise BadProblem."""
        sizes = dict(sizes or {})
        names = {parameter.name for parameter in self.parameters}
        for name in sizes.keys() - names:
            raise BadProblem(
                f"the family {self.name} has no parameter {name!r}",
                f"its parameters: {', '.join(f'{p.name} ({p.help})' if p.help else p.name for p in self.parameters)}"
                if names
                else "leave out --problem: no size is described",
            )
        return {p.name: p.validated(sizes.get(p.name, p.default)) for p in self.parameters}

    def architecture(self, kernel: Kernel, default: str) -> str:
        """Return the architecture to compile a kernel for: the one asked for, the kernel's own, or the default."""
        return self.arch or kernel.arch or default

    def source(self, kernel: Kernel) -> Path:
        """Return the kernel's ``.cu``: its `file`, by default ``xor.cu`` for ``mine-xor`` of the family ``mine``."""
        return self.folder / (kernel.file or f"{kernel.name.removeprefix(f'{self.name}-')}.cu")

    def source_texts(self) -> dict[str, str]:
        """Return the text of every source file of the family by its path, such as
        ``kernels/attention/2_swizzled.cu``, or ``tile.cuh`` next to a single file. Links to elsewhere are left out.
        """
        if self.standalone:
            files = self._included()
            return {self._shown_name(path): text for path, text in files if self._shows(path)}
        own = sorted([*include_folder(self.folder).glob("*.cuh"), *self.folder.glob("*.cu*")])
        texts = {self._shown_name(path): read_source(path) for path in own if path.is_file() and self._shows(path)}
        if self.shipped:
            return texts
        ours = data_root()
        borrowed = ((path, text) for path, text in self._included() if paths.kernels() in path.parents)
        return {**{path.relative_to(ours).as_posix(): text for path, text in borrowed}, **texts}

    def _shown_name(self, path: Path) -> str:
        """Return a source's path below the root, as text."""
        return encodable(path.relative_to(self.root).as_posix())

    def _shows(self, path: Path) -> bool:
        """Return whether a file's text may stand in a profile: a kernel's source, or a file that really is here.

        A header can be a link to a private file.
        """
        here = self.root in path.parents and os.path.realpath(path).startswith(f"{os.path.realpath(self.root)}/")
        return here or any(path == self.source(kernel) for kernel in self.kernels)

    def included(self) -> dict[str, str]:
        """Return the text of every file that the kernels include by its absolute path, wherever it is."""
        return {str(path): text for path, text in self._included()}

    def _included(self) -> Iterator[tuple[Path, str]]:
        sources = [self.source(kernel) for kernel in self.kernels if not kernel.library]
        return limits.texts(sources, self.search_folders())

    def search_folders(self) -> list[Path]:
        """Return where headers are searched: what the options name, then the include path."""
        options = [*self.options, *(option for kernel in self.kernels for option in kernel.options)]
        return [*limits.folders(options), *self.include_folders()]

    def include_folders(self) -> list[Path]:
        """Return the include path: the shared headers next to the family, its own folder, and our shared headers."""
        beside = [] if self.standalone else [include_folder(self.folder)]
        return [*beside, self.folder, *([] if self.shipped else [paths.kernels() / COMMON])]

    def library(self) -> Kernel | None:
        """Return the library's kernel for the same problem, if the family has one."""
        return next((kernel for kernel in self.kernels if kernel.library), None)


def include_folder(family: Path) -> Path:
    """Return the folder of headers shared by the families next to this one."""
    return family.parent / COMMON


# How a file with kernels is named.


def split_name(text: str) -> tuple[Path, str]:
    """Return a file, and what is named in it; empty if that is nothing."""
    file, inside, name = text.partition(f"{PYTHON}{INSIDE}")
    return (Path(f"{file}{PYTHON}"), name) if inside and name else (Path(text), "")


def is_kernel_file(text: str) -> bool:
    """Return whether a text names a file with kernels, and of a Python file one of them."""
    file, name = split_name(text)
    return bool(name) or file.suffix in FILES


# A family as a JSON file, which passes a user's to the launching program.


def write(family: Family, file: Path) -> None:
    """Write the family to a file."""
    write_json(file, {**dataclasses.asdict(family), "folder": str(family.folder)})


def read(file: Path) -> Family:
    """Return a family equal to the one that `write` wrote; raise BadFile."""
    try:
        return from_plain(Family, json.loads(read_bytes(file)))
    except (ValueError, KeyError, TypeError) as error:
        raise BadFile(f"{file} does not describe a family: {error}", "profile the kernel again") from error


@dataclass(frozen=True)
class Target:
    """One kernel at one size; `problem` has every parameter of the family."""

    family: Family
    kernel: Kernel
    problem: Problem

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def launch(self) -> LaunchShape:
        """The launch at this size. Raises BadCatalog for an expression that cannot be evaluated."""
        own, usual = self.kernel.launch, self.family.launch
        return LaunchShape(
            grid=tuple(evaluate(size, self.problem) for size in own.grid or usual.grid),
            block=tuple(evaluate(size, self.problem) for size in own.block or usual.block),
            shared=evaluate(own.shared or usual.shared, self.problem),
            cluster=own.cluster or usual.cluster,
        )

    @property
    def threads(self) -> int:
        """How many threads a launch has."""
        return math.prod(self.launch.grid) * math.prod(self.launch.block)

    def is_called(self, name: str) -> bool:
        """Return whether this is its name, or its function's."""
        return name in (self.name, self.kernel.entry)

    def sized(self, sizes: Mapping[str, int]) -> Target:
        """Return the kernel at these sizes, those that its family lacks left out; raise BadProblem."""
        names = {parameter.name for parameter in self.family.parameters}
        problem = self.family.problem({name: size for name, size in sizes.items() if name in names})
        return replace(self, problem=problem)

    @property
    def source(self) -> Path:
        """The kernel's .cu, cubin or PTX file."""
        return self.family.source(self.kernel)

    @property
    def compiled(self) -> bool:
        """Whether it is a cubin or PTX file, which can be emulated but not built and launched."""
        return not self.kernel.library and self.source.suffix in BINARIES

    @property
    def python(self) -> bool:
        """Whether it is a function in a Python file, which a front end has yet to compile."""
        return not self.kernel.library and not self.kernel.cubin and self.source.suffix == PYTHON
