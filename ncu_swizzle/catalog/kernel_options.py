"""How the command line, or a call from Python, describes kernels beside the shipped ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ncu_swizzle.option import option
from ncu_swizzle.texts import Texts, listed


@dataclass(frozen=True)
class KernelDescription:
    """What the command line says of a .cu file's kernel, its options split and paths made whole."""

    entry: str = ""
    grid: str = ""
    block: str = ""
    shared: str = ""
    args: tuple[str, ...] = ()
    problem: Mapping[str, int] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def typed(self) -> list[str]:
        """The options that only a .cu file takes, of those that were given."""
        named = {
            "--kernel": self.entry, "--grid": self.grid, "--block": self.block, "--shared": self.shared,
            "--arg": self.args, "-D, -I, --std or --nvcc-option": self.options,
            "--before": self.before, "--after": self.after,
        }  # fmt: skip
        return [name for name, value in named.items() if value]


@dataclass(frozen=True)
class KernelOptions:
    """The options that describe a kernel of a .cu file, as they are typed; from Python also numbers and lists."""

    entry: str = option("", "Of a .cu: its kernel, such as fn, ns::fn or 'fn<32>'.", "FUNCTION", ("--kernel",))
    grid: str | Sequence[str | int] = option("", "Of a .cu: blocks, such as n//32,n//32.", "X[,Y[,Z]]")
    block: str | Sequence[str | int] = option("", "Of a .cu: threads of a block.", "X[,Y[,Z]]")
    shared: str | int = option("", "Of a .cu: dynamic shared memory of a block.", "BYTES")
    args: Texts = option((), "Of a .cu: one for each parameter, in order; see above.", "ARG", ("--arg",))
    define: Texts = option((), "Of a .cu: a macro; repeat it.", "NAME[=VALUE]", ("-D", "--define"))
    include: Texts = option((), "Of a .cu: where headers are; repeat it.", "FOLDER", ("-I", "--include"))
    std: str = option("", "Of a .cu: c++17, c++20 …", "STANDARD")
    nvcc_option: Texts = option((), "Of a .cu: goes to nvcc; repeat it.", "OPTION")

    def described(self, problem: Mapping[str, int]) -> KernelDescription:
        """Return the description that the options give, paths taken from the current folder. Raises UsageError."""
        from ncu_swizzle.catalog import nvcc_options

        given = listed(self.define), listed(self.include), listed(self.nvcc_option)
        return KernelDescription(
            entry=self.entry,
            grid=_commas(self.grid),
            block=_commas(self.block),
            shared=str(self.shared),
            args=listed(self.args),
            problem=problem,
            options=nvcc_options.options(*given, self.std, Path()),
        )


@dataclass(frozen=True)
class PairOptions(KernelOptions):
    """The same, for a kernel that is compiled in two ways."""

    before: Texts = option((), "Of a .cu: nvcc's options of the kernel before, as -DSWIZZLE=0.", "OPTIONS")
    after: Texts = option((), "Of a .cu: those of the kernel after; both are profiled.", "OPTIONS")

    def described(self, problem: Mapping[str, int]) -> KernelDescription:
        """Return the description that the options give, paths taken from the current folder. Raises UsageError."""
        from ncu_swizzle.catalog import nvcc_options

        before, after = (nvcc_options.split(listed(texts), Path()) for texts in (self.before, self.after))
        return replace(super().described(problem), before=before, after=after)


@dataclass(frozen=True)
class CatalogOptions:
    """Where kernels beside the shipped ones are described."""

    config: str = option("", "Kernels and families; default: the nearest ncu-swizzle.toml.", "FILE|none")
    catalog: tuple[Path, ...] = option((), "Families of your own; repeat it.", "FOLDER")


def _commas(sizes: str | Sequence[str | int]) -> str:
    return sizes if isinstance(sizes, str) else ",".join(map(str, sizes))
