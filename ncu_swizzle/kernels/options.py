"""The options that describe a user's kernel, on the command line and in calls from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import Sizes, Texts, in_commas, listed, option

# The options that name a new build of captured kernels.


LAUNCHES = ".launches"  # the suffix of a file with captured launches
EXAMPLE = "--rebuild 'nvcc -O3 -lineinfo -arch=sm_90 app.cu'"


@dataclass(frozen=True)
class NewBuild:
    """What takes the place of the cubins in a launches file."""

    cubin: tuple[Path, ...] = option((), "Replay captured launches with this cubin or PTX; repeatable.", "FILE")
    rebuild: str = option("", "Replay captured launches with what this nvcc command builds.", "COMMAND")

    @property
    def given(self) -> str:
        """The option that was typed; empty without one."""
        return "--cubin" if self.cubin else "--rebuild" if self.rebuild else ""

    def refuse_without_launches(self, entries: Sequence[str]) -> None:
        """Raise UsageError if a new build is given and none of these is a launches file."""
        if self.given and not any(entry.endswith(LAUNCHES) for entry in entries):
            raise UsageError(
                f"{self.given} is for launches files, and {', '.join(entries)} is none",
                "ncu-swizzle capture -o app.launches -- ./app writes one",
            )


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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
        from ncu_swizzle.kernels import nvcc_options

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


@dataclass(frozen=True, kw_only=True)
class PairOptions(KernelOptions):
    """The same, for a kernel that is compiled twice with different options."""

    before: Texts = option((), "For a .cu: nvcc options for the kernel before, such as -DSWIZZLE=0.", "OPTIONS")
    after: Texts = option((), "For a .cu: nvcc options for the kernel after; both are profiled.", "OPTIONS")

    def described(self, problem: Mapping[str, int]) -> KernelDescription:
        """Return the description, with paths relative to the current folder. Raises UsageError."""
        from ncu_swizzle.kernels import nvcc_options

        before, after = (nvcc_options.split(listed(texts), Path()) for texts in (self.before, self.after))
        return replace(super().described(problem), before=before, after=after)


@dataclass(frozen=True)
class CatalogOptions:
    """Where to find kernels other than the shipped ones."""

    config: str = option("", "Where your kernels are described; default: the nearest ncu-swizzle.toml.", "FILE|none")
    catalog: tuple[Path, ...] = option((), "Your own families; repeatable.", "FOLDER")
    trust: bool = option(False, "Let ncu-swizzle.toml and family.toml pass nvcc anything.", flags=("--trust",))
