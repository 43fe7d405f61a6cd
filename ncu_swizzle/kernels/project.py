"""A project's description of its kernels: ``ncu-swizzle.toml``, and the dictionary NCU_SWIZZLE in a Python file.

Both become a `KernelSpec`, of which nothing is checked yet but what the file may ask for.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import BadFile, Hint, Untrusted, UsageError, did_you_mean
from ncu_swizzle.base.files import is_file, read_bytes, read_toml
from ncu_swizzle.base.texts import encodable, in_commas
from ncu_swizzle.base.validate import mismatch, parse_integer
from ncu_swizzle.kernels import nvcc_options
from ncu_swizzle.kernels.family import PYTHON, Argument, Family, LaunchTexts, Parameter
from ncu_swizzle.kernels.nvcc_options import Checkout
from ncu_swizzle.kernels.options import LaunchOptions

# A project's settings: ``ncu-swizzle.toml``, or ``[tool.ncu-swizzle]`` in ``pyproject.toml``.
#
# check                 the gate's limits, see `gate.checking`
# [kernel.NAME]         a kernel in a file, see below
# [[ignore]]            findings that are suppressed, see `gate.checking`

OWN, PROJECT = "ncu-swizzle.toml", "pyproject.toml"
IGNORE = "ignore"
KEYS = ("check", "kernel", IGNORE)
NONE = "none"
TODO = "TODO"  # in an entry: what its user has to say
HELP = "docs/ci.md describes [check]; docs/describing-kernels.md describes [kernel.NAME]"


@dataclass(frozen=True, kw_only=True)
class Project:
    """A settings file: its content by key, and the prefix of the keys: "" or ``tool.ncu-swizzle.``.

    `trusted` is whether the user passed --trust.
    """

    file: Path
    content: Mapping[str, Any] = field(default_factory=dict)
    outer: str = ""
    trusted: bool = False

    @cached_property
    def checkout(self) -> Checkout:
        """What the file may ask for."""
        return Checkout(self.file.parent, self.trusted)

    def table(self, key: str) -> Mapping[str, Any]:
        """Return the table under a key, empty if there is none; raise UsageError if it is not a table."""
        return table(self.content.get(key, {}), self.file, f"[{self.outer}{key}]")


def nearest_project(
    start: Path, trusted: bool = False, within: Callable[[Path], bool] = lambda folder: True
) -> Project | None:
    """Return the nearest settings file, in `start` or a folder above it, as far up as `within` allows.

    Raises Untrusted if it belongs to another user than `start` does: anyone can leave a file in /tmp.
    """
    for folder in itertools.takewhile(within, (start, *start.parents)):
        for name in (OWN, PROJECT):
            if (folder / name).is_file() and (project := _read_settings(folder / name, name == OWN, trusted)):
                _refuse_foreign(project.file, start)
                return project
    return None


def _refuse_foreign(file: Path, start: Path) -> None:
    if file.stat().st_uid not in (0, os.geteuid(), start.stat().st_uid):
        raise Untrusted(
            f"{file} belongs to another user, and was only found on the way up from {start}",
            f"--config {file}, or --config none",
        )


def project_in(file: Path, trusted: bool = False) -> Project:
    """Return the settings in a file; raise BadFile if it has none."""
    project = _read_settings(file, file.name != PROJECT, trusted)
    if project is None:
        raise BadFile(f"{file} has no [tool.ncu-swizzle]", HELP)
    return project


def project_file(name: str, start: Path, trusted: bool = False) -> Project | None:
    """Return the settings file that --config names, None for "none", or the nearest one by default."""
    if name == NONE:
        return None
    return project_in(Path(name), trusted) if name else nearest_project(start, trusted)


def _read_settings(file: Path, own: bool, trusted: bool) -> Project | None:
    try:
        content: Any = read_toml(file)
    except BadFile as error:
        raise BadFile(str(error), Hint(error.hint, ", or --config none")) from error
    if not own:
        content = table(content.get("tool", {}), file, "[tool]").get("ncu-swizzle")
        if content is None:
            return None
    outer = "" if own else "tool.ncu-swizzle."
    refuse_others(table(content, file, f"[{outer.rstrip('.')}]"), KEYS, file.name)
    return Project(file=file, content=content, outer=outer, trusted=trusted)


def table(content: Any, file: Path, name: str) -> Mapping[str, Any]:
    """Return the content; raise UsageError if it is not a table."""
    if not isinstance(content, dict):
        raise UsageError(f"{file}: {name} is not a table", HELP)
    return content


def refuse_others(content: Iterable[str], allowed: tuple[str, ...], origin: str) -> None:
    """Raise UsageError for a key that is not allowed."""
    for name in content:
        if name not in allowed:
            meant = did_you_mean(name, allowed)
            raise UsageError(f"{origin}: unknown key {name!r}{meant}", f"known: {', '.join(allowed)}")


# A kernel as its user describes it, on the command line or in ncu-swizzle.toml; nothing of it is checked yet.


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to compile a kernel: nvcc options that its other variants lack."""

    name: str
    options: tuple[str, ...] = ()
    title: str = ""
    lesson: str = ""


@dataclass(frozen=True, kw_only=True)
class KernelSpec:
    """A kernel as described, nothing checked yet. Expressions are over the problem's sizes."""

    name: str
    source: Path
    launch: LaunchOptions = LaunchOptions()
    problem: tuple[Parameter, ...] = ()
    args_folder: Path = Path()
    args_checkout: Checkout | None = None  # of the project file that the arguments come from
    options: tuple[str, ...] = ()  # of its compiler
    reference: str = ""
    tolerance: Mapping[str, float] = field(default_factory=dict)
    flops: str = "0"
    bytes: str = "0"
    compute_capability: str = "0.0"
    variants: tuple[Variant, ...] = ()
    title: str = ""
    lesson: str = ""
    origin: str = ""  # the project file and its table

    @property
    def to_do(self) -> list[str]:
        """What its launch still lacks, in an entry that ``ncu-swizzle init`` wrote."""
        texts = {"grid": self.launch.grid, "block": self.launch.block, "shared": self.launch.shared}
        texts["args"] = " ".join(self.launch.args)
        return [key for key, text in texts.items() if re.search(rf"\b{TODO}\b", text)]

    @property
    def sizes(self) -> dict[str, int]:
        """The problem's sizes."""
        return {parameter.name: parameter.default for parameter in self.problem}

    def as_family(self, source: Path, what: str, launch: LaunchTexts, arguments: tuple[Argument, ...]) -> Family:
        """Return the family without kernels, in any language; `what` names the kernel in its title."""
        return Family(
            name=self.name,
            title=encodable(self.title or f"{what} in {source.name}"),
            folder=source.parent,
            reference=self.reference,
            flops=self.flops,
            bytes=self.bytes,
            parameters=self.problem,
            launch=launch,
            compute_capability=(0, 0),
            headers=(),
            arguments=arguments,
            kernels=(),
            options=self.options,
            standalone=True,
            origin=self.origin,
            arch=self.launch.arch,
            sample=self.launch.sample,
        )


# The kernels described in a project's ncu-swizzle.toml.
#
# [kernel.transpose]
# source = "my.cu"
# entry = "transpose"                    # optional if the file has one kernel
# problem = { n = 4096 }
# grid = "n//32, n//32"
# block = "32, 8"
# shared = 0                             # bytes of dynamic shared memory
# args = ["x=float32[n,n]:random", "y=float32[n,n]:out", "n=int32:n"]       # see `arguments`
# defines = { TILE = 32 }
# include = ["include"]
# std = "c++20"
# nvcc = ["--use_fast_math"]             # what is allowed: `nvcc_options.is_allowed`
# options = { num_warps = 8 }            # as --option, for a function in a Python file
# arch = "sm_90a"                        # as --arch
# sample = 1                             # as --sample
# reference = "reference.py:transpose"   # see `references`
# tolerance = { y = 0.0 }
# bytes = "2 * 4 * n * n"                # or flops: the limit that times are compared with
#
# [kernel.transpose.variant.plain]       # called transpose-plain; the first variant is the baseline of the others
# defines = { SWIZZLE = 0 }

VARIANT = ("defines", "include", "std", "nvcc", "options", "title", "lesson")
KERNEL = (
    "source", "entry", "problem", "grid", "block", "shared", "args", "reference", "tolerance", "flops", "bytes",
    "compute_capability", "arch", "sample", "variant", *VARIANT,
)  # fmt: skip


def specs(project: Project) -> tuple[KernelSpec, ...]:
    """Return the kernels that a project describes; raise UsageError for an invalid entry."""
    return tuple(_spec(name, entry, project) for name, entry in project.table("kernel").items())


def _spec(name: str, entry: Any, project: Project) -> KernelSpec:
    origin = f"{project.file.name} [{project.outer}kernel.{name}]"
    folder, checkout = project.file.parent, project.checkout
    fields = table(entry, project.file, f"[{project.outer}kernel.{name}]")
    refuse_others(fields, KERNEL, origin)
    if not isinstance(fields.get("source"), str):
        raise UsageError(f"{origin} names no source", 'add source = "my.cu"')
    variants = table(fields.get("variant", {}), project.file, f"[{project.outer}kernel.{name}.variant]")
    return KernelSpec(
        name=name,
        source=checkout.path(fields["source"], f"{origin}: source"),
        launch=LaunchOptions(
            entry=_text(fields, "entry", origin),
            grid=_sizes(fields, "grid", origin),
            block=_sizes(fields, "block", origin),
            shared=_text(fields, "shared", origin),
            args=_texts(fields, "args", origin),
            arch=_text(fields, "arch", origin),
            sample=_seed(fields, origin),
        ),
        problem=tuple(_parameter(size, value, origin) for size, value in _table(fields, "problem", origin).items()),
        args_folder=folder,
        args_checkout=checkout,
        options=_options(fields, checkout, origin),
        reference=_reference(_text(fields, "reference", origin), checkout, origin),
        tolerance=_tolerances(fields, origin),
        flops=_text(fields, "flops", origin) or "0",
        bytes=_text(fields, "bytes", origin) or "0",
        compute_capability=_capability(_text(fields, "compute_capability", origin), origin),
        variants=tuple(_variant(name, which, variant, project) for which, variant in variants.items()),
        title=_text(fields, "title", origin),
        lesson=_text(fields, "lesson", origin),
        origin=f"{project.file} [{project.outer}kernel.{name}]",
    )


def _variant(kernel: str, name: str, entry: Any, project: Project) -> Variant:
    header = f"[{project.outer}kernel.{kernel}.variant.{name}]"
    fields = table(entry, project.file, header)
    origin = f"{project.file.name} {header}"
    refuse_others(fields, VARIANT, origin)
    title, lesson = _text(fields, "title", origin), _text(fields, "lesson", origin)
    return Variant(
        name=f"{kernel}-{name}", options=_options(fields, project.checkout, origin), title=title, lesson=lesson
    )


def _parameter(name: str, value: Any, origin: str) -> Parameter:
    try:
        size = Parameter(name, **(value if isinstance(value, dict) else {"default": parse_integer(str(value))}))
        if wrong := mismatch(size):
            raise ValueError(wrong)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{origin}: the size {name} is {value!r}", "problem = { n = 4096, m = { default = 64, multiple = 32 } }"
        ) from error
    return size


def _options(fields: Mapping[str, Any], checkout: Checkout, origin: str) -> tuple[str, ...]:
    defined = [f"{name}={value}" for name, value in _table(fields, "defines", origin).items()]
    include, nvcc, standard = (
        _texts(fields, "include", origin), _texts(fields, "nvcc", origin), _text(fields, "std", origin),
    )  # fmt: skip
    by_key = {
        "defines": nvcc_options.options(defined, (), (), "", checkout.folder),
        "include": nvcc_options.options((), include, (), "", checkout.folder),
        "std": nvcc_options.options((), (), (), standard, checkout.folder),
        "nvcc": nvcc_options.split(nvcc, checkout.folder),
    }
    tuning = [f"{name}={value}" for name, value in _table(fields, "options", origin).items()]
    nvcc_ = (option for key, words in by_key.items() for option in checkout.options(words, f"{origin}: {key}"))
    return (*nvcc_, *tuning)


def _reference(text: str, checkout: Checkout, origin: str) -> str:
    """Return a reference with its file's absolute path; a module's name is returned unchanged."""
    file = re.search(r"^(.*\.py)(:\w+)?$", text, re.DOTALL)
    return f"{checkout.path(file[1], f'{origin}: reference').absolute()}{file[2] or ''}" if file else text


def _tolerances(fields: Mapping[str, Any], origin: str) -> dict[str, float]:
    tolerances = _table(fields, "tolerance", origin)
    for name, value in tolerances.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise UsageError(f"{origin}: the tolerance of {name} is {value!r}", "tolerance = { y = 1e-5 }")
    return {name: float(value) for name, value in tolerances.items()}


def _capability(text: str, origin: str) -> str:
    if text and not re.fullmatch(r"\d{1,3}\.\d", text):
        raise UsageError(f"{origin}: compute_capability is {text!r}", 'compute_capability = "9.0"')
    return text or "0.0"


def _text(fields: Mapping[str, Any], key: str, origin: str) -> str:
    value = fields.get(key, "")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{origin}: {key} is {value!r}", "write a string in quotes")
    return str(value)


def _seed(fields: Mapping[str, Any], origin: str) -> int | None:
    value = fields.get("sample")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise UsageError(f"{origin}: sample is {value!r}", "sample = 1")
    return value


def _texts(fields: Mapping[str, Any], key: str, origin: str) -> tuple[str, ...]:
    value = fields.get(key, [])
    if not isinstance(value, list) or not all(isinstance(part, str | int | float) for part in value):
        raise UsageError(f"{origin}: {key} is {value!r}", 'write a list of strings: ["…", "…"]')
    return tuple(map(str, value))


def _table(fields: Mapping[str, Any], key: str, origin: str) -> Mapping[str, Any]:
    value = fields.get(key, {})
    if not isinstance(value, dict):
        raise UsageError(f"{origin}: {key} is {value!r}", f"write a table: {key} = {{ NAME = VALUE }}")
    return value


def _sizes(fields: Mapping[str, Any], key: str, origin: str) -> str:
    listed = isinstance(fields.get(key), list)
    return in_commas(_texts(fields, key, origin)) if listed else _text(fields, key, origin)


# Launches that a Python file declares of its own functions: the dictionary NCU_SWIZZLE at its top level.
#
# NCU_SWIZZLE = {
#     "transpose": {
#         "problem": {"n": 2048},
#         "grid": "n // BM, n // BN",
#         "args": ["x=float32[n,n]", "y=float32[n,n]:out", "rows=n", "columns=n", "BM=64", "BN=64"],
#         "variant": {"wide": {"options": {"num_warps": 8}}},
#     },
# }
#
# A key is a function's name, or any with ``entry``; the rest is as in ncu-swizzle.toml.

VARIABLE = "NCU_SWIZZLE"


def declared(file: Path, trust: bool = False) -> tuple[KernelSpec, ...]:
    """Return the launches that a Python file declares; none for another file. Raises UsageError."""
    if file.suffix != PYTHON or not is_file(file) or not (source := _declaration(file)):
        return ()
    try:
        # Linting a file that one does not trust must not execute it.
        content = ast.literal_eval(source)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise UsageError(
            f"{file.name}:{source.lineno}: {VARIABLE} is not a literal, and the file is not executed to read it",
            f'{VARIABLE} = {{"FUNCTION": {{"grid": "n // 128", "args": ["x=float32[n]"]}}}}',
        ) from error
    kernels = {
        name: {"source": file.name, "entry": name, **table(_lists(entry), file, f"[{VARIABLE} {name}]")}
        for name, entry in table(content, file, VARIABLE).items()
    }
    return specs(Project(file=file, content={"kernel": kernels}, outer=f"{VARIABLE} ", trusted=trust))


def _declaration(file: Path) -> ast.expr | None:
    """Return what the file assigns to the variable at its top level; None if it does not, or cannot be parsed."""
    content = read_bytes(file)
    if VARIABLE.encode() not in content:
        return None
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # importing it says why
        return None
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == VARIABLE for target in targets):
                return node.value
    return None


def _lists(value: Any) -> Any:
    """Return a literal with lists for tuples, as TOML has them."""
    if isinstance(value, dict):
        return {str(key): _lists(each) for key, each in value.items()}
    return [_lists(each) for each in value] if isinstance(value, list | tuple) else value
