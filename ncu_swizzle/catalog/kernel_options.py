"""The options that describe a user's kernel, on the command line and in calls from Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ncu_swizzle.option import option
from ncu_swizzle.texts import Sizes, Texts, in_commas, listed


@dataclass(frozen=True)
class KernelDescription:
    """A .cu file's kernel as the command line describes it, with options split and paths absolute."""

    entry: str = ""
    grid: str = ""
    block: str = ""
    shared: str = ""
    args: tuple[str, ...] = ()
    problem: Mapping[str, int] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    tuning: tuple[str, ...] = ()  # NAME=VALUE each
    arch: str = ""
    sample: int | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def typed(self) -> list[str]:
        """The given options that apply to a .cu file only."""
        named = {
            "--kernel": self.entry, "--grid": self.grid, "--block": self.block, "--shared": self.shared,
            "--arg": self.args, "-D, -I, --std or --nvcc-option": self.options, "--option": self.tuning,
            "--before": self.before, "--after": self.after,
        }  # fmt: skip
        return [name for name, value in named.items() if value]


@dataclass(frozen=True)
class KernelOptions:
    """The options that describe a .cu file's kernel, as typed; from Python also numbers and sequences."""

    entry: str = option("", "For a .cu: the kernel, such as fn, ns::fn or 'fn<32>'.", "FUNCTION", ("--kernel",))
    grid: Sizes = option("", "For a .cu: blocks, such as n//32,n//32.", "X[,Y[,Z]]")
    block: Sizes = option("", "For a .cu: threads per block.", "X[,Y[,Z]]")
    shared: str | int = option("", "For a .cu: dynamic shared memory per block.", "BYTES")
    args: Texts = option((), "For a .cu: one per parameter, in order; see above.", "ARG", ("--arg",))
    define: Texts = option((), "For a .cu: define a macro; repeatable.", "NAME[=VALUE]", ("-D", "--define"))
    include: Texts = option((), "For a .cu: an include folder; repeatable.", "FOLDER", ("-I", "--include"))
    std: str = option("", "For a .cu: c++17, c++20 …", "STANDARD")
    nvcc_option: Texts = option((), "For a .cu: pass this to nvcc; repeatable.", "OPTION")
    tuning: Texts = option((), "For Python: num_warps=8 …; repeatable.", "NAME=VALUE", ("--option",))
    arch: str = option("", "Compile for this architecture.", "sm_90|sm_90a|…")
    sample: int | None = option(None, "Emulated: random inputs of this seed stand for the data.", "SEED", minimum=0)

    def described(self, problem: Mapping[str, int]) -> KernelDescription:
        """Return the description, with paths relative to the current folder. Raises UsageError."""
        from ncu_swizzle.catalog import nvcc_options

        given = listed(self.define), listed(self.include), listed(self.nvcc_option)
        return KernelDescription(
            entry=self.entry,
            grid=in_commas(self.grid),
            block=in_commas(self.block),
            shared=str(self.shared),
            args=listed(self.args),
            problem=problem,
            options=nvcc_options.options(*given, self.std, Path()),
            tuning=listed(self.tuning),
            arch=self.arch,
            sample=self.sample,
        )


@dataclass(frozen=True)
class PairOptions(KernelOptions):
    """The same, for a kernel that is compiled twice with different options."""

    before: Texts = option((), "For a .cu: nvcc options for the kernel before, such as -DSWIZZLE=0.", "OPTIONS")
    after: Texts = option((), "For a .cu: nvcc options for the kernel after; both are profiled.", "OPTIONS")

    def described(self, problem: Mapping[str, int]) -> KernelDescription:
        """Return the description, with paths relative to the current folder. Raises UsageError."""
        from ncu_swizzle.catalog import nvcc_options

        before, after = (nvcc_options.split(listed(texts), Path()) for texts in (self.before, self.after))
        return replace(super().described(problem), before=before, after=after)


@dataclass(frozen=True)
class CatalogOptions:
    """Where to find kernels other than the shipped ones."""

    config: str = option("", "Where your kernels are described; default: the nearest ncu-swizzle.toml.", "FILE|none")
    catalog: tuple[Path, ...] = option((), "Your own families; repeatable.", "FOLDER")
    trust: bool = option(False, "Let ncu-swizzle.toml and family.toml pass nvcc anything.", flags=("--trust",))
