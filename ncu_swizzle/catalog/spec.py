"""A kernel as its user describes it, on the command line or in ncu-swizzle.toml; nothing of it is checked yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ncu_swizzle.catalog import launch_limits
from ncu_swizzle.catalog.checkout import Checkout
from ncu_swizzle.catalog.family import Argument, Family, Parameter
from ncu_swizzle.texts import Sizes, encodable


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

    def as_family(
        self, source: Path, what: str, block: tuple[str, str, str], arguments: tuple[Argument, ...]
    ) -> Family:
        """Return the family without kernels, in any language; `what` names the kernel in its title."""
        return Family(
            name=self.name,
            title=encodable(self.title or f"{what} in {source.name}"),
            folder=source.parent,
            reference=self.reference,
            flops=self.flops,
            bytes=self.bytes,
            parameters=self.problem,
            grid=launch_limits.three(self.grid, "grid"),
            block=block,
            shared=self.shared,
            compute_capability=(0, 0),
            headers=(),
            arguments=arguments,
            kernels=(),
            options=self.options,
            standalone=True,
            origin=self.origin,
            arch=self.arch,
            sample=self.sample,
        )
