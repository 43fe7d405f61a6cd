"""The queries of ``ncu-swizzle explain`` and its Python functions. Nothing here takes time to import."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ncu_swizzle.base.texts import option
from ncu_swizzle.engines.settings import Progress, Request, silent
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription, KernelOptions

if TYPE_CHECKING:
    from ncu_swizzle.smem.judge import Constraints

WAVEFRONTS, MAP, MAPPING, PHASES, BITS, PLACES = "wavefronts", "map", "mapping", "phases", "bits", "places"
CODE = ("both", "cuda", "cute", "none")
WARP = BANKS = 32  # as `smem` has them


@dataclass(frozen=True, kw_only=True)
class KernelQuery:
    """How a kernel is found, described, compiled and emulated."""

    request: Request = Request()
    description: KernelDescription = KernelDescription()
    progress: Progress = silent

    @classmethod
    def of(cls, request: Request, own: KernelOptions, sources: CatalogOptions, progress: Progress) -> KernelQuery:
        """Return the query of a command's options, or a function's keywords. Raises UsageError."""
        return cls(request=request, description=own.description(request.problem, sources), progress=progress)


@dataclass(frozen=True, kw_only=True)
class ExplainQuery:
    """What to explain (a layout, a kernel, a source line, an expression), and which part of the answer to show."""

    group: ClassVar[str] = "Layouts, expressions and pictures"

    what: str = ""
    show: str = option(
        "",
        "Only this part; mapping is what suits, bits those of addresses.",
        choices=(WAVEFRONTS, MAP, MAPPING, PHASES, BITS, PLACES),
        common=True,
    )
    element_bytes: int | None = option(
        None,
        "Element size; default 4, or the narrowest access.",
        "BYTES",
        ("--elem",),
        common=True,
    )
    reads: tuple[str, ...] = option(
        (), "How a layout is read: row, column, ldmatrix …", "ACCESS", ("--read",), common=True
    )
    writes: tuple[str, ...] = option((), "How it is written; both are repeatable.", "ACCESS", ("--write",), common=True)
    swizzle: str = option("", "Swizzle<B,M,S> on elements; also bytes:B,M,S, 128B …", "B,M,S", common=True)
    pad: int = option(0, "Unused elements after each row.", "ELEMENTS", minimum=0, common=True)
    access: str = option(
        "", "The access to draw, of a kernel by its line or instruction; default: the worst.", "ACCESS"
    )
    op: str = option("", "Of an expression: ld.shared.b32 …", "OP", common=True)
    active: str = option("", "Of an expression: the active lanes, such as lane < 8.", "EXPRESSION")
    threads: int = option(WARP, "For expressions in tid: threads per block.", minimum=WARP, maximum=1024)
    max_bytes: int | None = option(None, "At most this many extra bytes per tile.", "BYTES", minimum=0)
    tma: bool = option(False, "TMA must be able to write the tile.", flags=("--tma",))
    copies: int = option(1, "Number of such tiles per block.", minimum=1)
    code: str = option("both", "The mapping's code to print.", choices=CODE)
    row: int | None = option(None, "With --show bits: only this row.")
    request: int | None = option(None, "With --show phases: this request instead of the worst.")
    banks: int = option(BANKS, "Number of banks; other than 32 for a toy memory.", minimum=1)
    arch: str = ""  # that a mapping is for; default: the kernel's
    leading: bool = False  # an API computes the addresses from a leading dimension
    rows: bool = True  # it is known how long rows are
    kernel: KernelQuery = KernelQuery()

    def __post_init__(self) -> None:
        if self.element_bytes is not None:
            from ncu_swizzle.smem.mapping import refuse_element

            refuse_element(self.element_bytes)

    @property
    def limits(self) -> Constraints:
        """What a mapping has to respect. Raises UsageError."""
        from ncu_swizzle.smem.judge import Constraints

        arch = self.arch or self.kernel.description.launch.arch.rstrip("af") or Constraints.arch
        return Constraints(
            max_bytes=self.max_bytes,
            tma=self.tma,
            copies=self.copies,
            arch=arch,
            leading=self.leading,
            rows=self.rows,
        )

    @property
    def line(self) -> str:
        """The requested line, in the form of access names: ``my.cu:12``; empty without one."""
        file, number = _located(self.what)
        return f"{Path(file).name}:{number}" if number else ""

    @property
    def subject(self) -> str:
        """What is explained, without its line."""
        return _located(self.what)[0]


def _located(what: str) -> tuple[str, str]:
    """Split off the line number of a source; other text is returned whole."""
    from ncu_swizzle.kernels.family import is_kernel_file

    file, colon, number = what.rpartition(":")
    return (file, number) if colon and number.isdecimal() and is_kernel_file(file) else (what, "")
