"""The kernels that a project's ncu-swizzle.toml describes.

[kernel.transpose]
source = "my.cu"
entry = "transpose"                    # may be left away where the file has one kernel
problem = { n = 4096 }
grid = "n//32, n//32"
block = "32, 8"
shared = 0                             # bytes of dynamic shared memory
args = ["x=float32[n,n]:random", "y=float32[n,n]:out", "n=int32:n"]       # see arguments.py
defines = { TILE = 32 }
include = ["include"]
std = "c++20"
nvcc = ["--use_fast_math"]
reference = "reference.py:transpose"   # see expectation.py
tolerance = { y = 0.0 }
bytes = "2 * 4 * n * n"                # or flops: what limits it, for ncu-swizzle run

[kernel.transpose.variant.plain]       # called transpose-plain; the first is what the others are compared with
defines = { SWIZZLE = 0 }
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ncu_swizzle.catalog import nvcc_options
from ncu_swizzle.catalog.family import Parameter
from ncu_swizzle.catalog.kernel_spec import Spec, Variant
from ncu_swizzle.catalog.project import Project, refuse_others, table
from ncu_swizzle.errors import UsageError

VARIANT = ("defines", "include", "std", "nvcc", "title", "lesson")
KERNEL = (
    "source", "entry", "problem", "grid", "block", "shared", "args", "reference", "tolerance", "flops", "bytes",
    "compute_capability", "variant", *VARIANT,
)  # fmt: skip


def specs(found: Project) -> tuple[Spec, ...]:
    """Return the kernels that a project describes; raise UsageError where an entry is wrong."""
    return tuple(_spec(name, entry, found) for name, entry in found.table("kernel").items())


def _spec(name: str, entry: Any, found: Project) -> Spec:
    origin = f"{found.file.name} [{found.outer}kernel.{name}]"
    folder = found.file.parent
    own = table(entry, found.file, f"[{found.outer}kernel.{name}]")
    refuse_others(own, KERNEL, origin)
    if not isinstance(own.get("source"), str):
        raise UsageError(f"{origin} names no source", 'add source = "my.cu"')
    variants = table(own.get("variant", {}), found.file, f"[{found.outer}kernel.{name}.variant]")
    return Spec(
        name=name,
        source=folder / own["source"],
        entry=_text(own, "entry", origin),
        problem=tuple(_parameter(size, value, origin) for size, value in _table(own, "problem", origin).items()),
        grid=_sizes(own, "grid", origin),
        block=_sizes(own, "block", origin),
        shared=_text(own, "shared", origin) or "0",
        args=_texts(own, "args", origin),
        args_folder=folder,
        options=_options(own, folder, origin),
        reference=_reference(_text(own, "reference", origin), folder),
        tolerance=_tolerances(own, origin),
        flops=_text(own, "flops", origin) or "0",
        bytes=_text(own, "bytes", origin) or "0",
        compute_capability=_capability(_text(own, "compute_capability", origin), origin),
        variants=tuple(_variant(name, which, one, found) for which, one in variants.items()),
        title=_text(own, "title", origin),
        lesson=_text(own, "lesson", origin),
    )


def _variant(kernel: str, name: str, entry: Any, found: Project) -> Variant:
    where = f"[{found.outer}kernel.{kernel}.variant.{name}]"
    own = table(entry, found.file, where)
    origin = f"{found.file.name} {where}"
    refuse_others(own, VARIANT, origin)
    title, lesson = _text(own, "title", origin), _text(own, "lesson", origin)
    return Variant(f"{kernel}-{name}", _options(own, found.file.parent, origin), title, lesson)


def _parameter(name: str, value: Any, origin: str) -> Parameter:
    try:
        return Parameter(name, **(value if isinstance(value, dict) else {"default": int(value)}))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{origin}: the size {name} is {value!r}", "problem = { n = 4096, m = { default = 64, multiple = 32 } }"
        ) from error


def _options(own: Mapping[str, Any], folder: Path, origin: str) -> tuple[str, ...]:
    defined = [f"{name}={value}" for name, value in _table(own, "defines", origin).items()]
    standard = _text(own, "std", origin)
    return nvcc_options.options(defined, _texts(own, "include", origin), _texts(own, "nvcc", origin), standard, folder)


def _reference(text: str, folder: Path) -> str:
    """Return a reference with its file's whole path; one that is a module's name as it is."""
    return str(folder.absolute() / text) if re.search(r"\.py(:\w+)?$", text) else text


def _tolerances(own: Mapping[str, Any], origin: str) -> dict[str, float]:
    found = _table(own, "tolerance", origin)
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise UsageError(f"{origin}: the tolerance of {name} is {value!r}", "tolerance = { y = 1e-5 }")
    return {name: float(value) for name, value in found.items()}


def _capability(text: str, origin: str) -> str:
    if text and not re.fullmatch(r"\d+\.\d+", text):
        raise UsageError(f"{origin}: compute_capability is {text!r}", 'compute_capability = "9.0"')
    return text or "0.0"


def _text(own: Mapping[str, Any], key: str, origin: str) -> str:
    value = own.get(key, "")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{origin}: {key} is {value!r}", "write a text in quotes")
    return str(value)


def _texts(own: Mapping[str, Any], key: str, origin: str) -> tuple[str, ...]:
    value = own.get(key, [])
    if not isinstance(value, list) or not all(isinstance(part, str | int | float) for part in value):
        raise UsageError(f"{origin}: {key} is {value!r}", 'write a list of texts: ["…", "…"]')
    return tuple(map(str, value))


def _table(own: Mapping[str, Any], key: str, origin: str) -> Mapping[str, Any]:
    value = own.get(key, {})
    if not isinstance(value, dict):
        raise UsageError(f"{origin}: {key} is {value!r}", f"write a table: {key} = {{ NAME = VALUE }}")
    return value


def _sizes(own: Mapping[str, Any], key: str, origin: str) -> str | tuple[str, ...]:
    return _texts(own, key, origin) if isinstance(own.get(key), list) else _text(own, key, origin)
