"""A kernel as its user describes it, on the command line or in ncu-swizzle.toml; nothing of it is checked yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ncu_swizzle.catalog.checkout import Checkout
from ncu_swizzle.catalog.family import Parameter
from ncu_swizzle.texts import Sizes


@dataclass(frozen=True)
class Variant:
    """One way to compile a kernel: nvcc options that its other variants lack."""

    name: str
    options: tuple[str, ...] = ()
    title: str = ""
    lesson: str = ""


@dataclass(frozen=True)
class KernelSpec:
    """A kernel as described, nothing checked yet. Expressions are over the problem's sizes."""

    name: str
    source: Path
    entry: str = ""
    problem: tuple[Parameter, ...] = ()
    grid: Sizes = ""
    block: Sizes = ""
    shared: str = "0"
    args: tuple[str, ...] = ()
    args_folder: Path = Path()
    args_checkout: Checkout | None = None  # of the project file that the arguments come from
    options: tuple[str, ...] = ()
    arch: str = ""
    sample: int | None = None
    reference: str = ""
    tolerance: Mapping[str, float] = field(default_factory=dict)
    flops: str = "0"
    bytes: str = "0"
    compute_capability: str = "0.0"
    variants: tuple[Variant, ...] = ()
    title: str = ""
    lesson: str = ""
    origin: str = ""  # the project file and its table
