"""What a name on the command line refers to, resolved once: a kernel, its family, and the complete problem."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.catalog.family import BINARIES, PYTHON, Family, Kernel, Problem


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
