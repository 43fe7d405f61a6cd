"""The options that describe a user's kernel, on the command line and in calls from Python."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import ClassVar

from ncu_swizzle.base.errors import UsageError, as_word
from ncu_swizzle.base.texts import in_commas, listed, option

# The options that name a new build of captured kernels.

RUN_MANIFEST = "run.json"  # the file that makes a folder a run's
LAUNCHES = ".launches"  # the suffix of a file with captured launches


def is_launches(path: Path | str) -> bool:
    """Return whether a file holds captured launches, which are emulated."""
    return str(path).endswith(LAUNCHES)


@dataclass(frozen=True)
class NewBuild:
    """What takes the place of the cubins in a launches file."""

    group: ClassVar[str] = "Captured launches"

    cubin: tuple[Path, ...] = option((), "Replay captured launches with this cubin or PTX; repeatable.", "FILE")

    def refuse_without_launches(self, entries: Sequence[str]) -> None:
        """Raise UsageError if a new build is given and none of these is a launches file."""
        if self.cubin and not any(entry.endswith(LAUNCHES) for entry in entries):
            raise UsageError(
                f"--cubin is for launches files, and {', '.join(entries)} is none",
                "ncu-swizzle capture -o app.launches -- ./app writes one",
            )


@dataclass(frozen=True)
class CatalogOptions:
    """Where to find kernels other than the shipped ones."""

    group: ClassVar[str] = "Your own kernels"

    config: str = option("", "Where your kernels are described; default: the nearest ncu-swizzle.toml.", "FILE|none")
    trust: bool = option(False, "Let ncu-swizzle.toml pass nvcc anything.", flags=("--trust",))


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """How a kernel is launched, in the user's words: typed, or in a project's file. Empty: not said."""

    group: ClassVar[str] = "Your own kernels"

    entry: str = option("", "For a .cu: the kernel: fn, ns::fn or 'fn<32>'.", "FUNCTION", ("--kernel",), common=True)
    grid: str = option("", "For a .cu: blocks, such as n//32,n//32.", "X[,Y[,Z]]", common=True)
    block: str = option("", "For a .cu: threads per block.", "X[,Y[,Z]]", common=True)
    shared: str = option("", "For a .cu: dynamic shared memory per block.", "BYTES")
    args: tuple[str, ...] = option((), "For a .cu, in order: x=float32[n,n]:random.", "ARG", ("--arg",), common=True)
    arch: str = option("", "Compile for this architecture.", "sm_90|sm_90a|…")
    sample: int | None = option(None, "Emulated: random inputs of this seed stand for the data.", "SEED", minimum=0)

    def __post_init__(self) -> None:
        # Python passes what is easy to write, such as grid=(32, 8) or args="n": from here on there is one form.
        for name in ("grid", "block", "shared"):
            object.__setattr__(self, name, in_commas(getattr(self, name)))
        for name in (one.name for one in fields(self) if one.default == ()):
            object.__setattr__(self, name, listed(getattr(self, name)))

    def over(self, other: LaunchOptions) -> LaunchOptions:
        """Return this launch, completed by another one where it says nothing."""
        names = (field.name for field in fields(LaunchOptions))
        said = {name: value for name in names if (value := getattr(self, name)) not in ("", (), None)}
        return replace(other, **said)


@dataclass(frozen=True, kw_only=True)
class KernelOptions(LaunchOptions):
    """The options that describe a .cu file's kernel, as typed."""

    define: tuple[str, ...] = option((), "For a .cu: define a macro; repeatable.", "NAME[=VALUE]", ("-D", "--define"))
    include: tuple[str, ...] = option((), "For a .cu: an include folder; repeatable.", "FOLDER", ("-I", "--include"))
    std: str = option("", "For a .cu: c++17, c++20 …", "STANDARD")
    nvcc_option: tuple[str, ...] = option((), "For a .cu: pass this to nvcc; repeatable.", "OPTION")
    tuning: tuple[str, ...] = option((), "For Python: num_warps=8 …; repeatable.", "NAME=VALUE", ("--option",))
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def description(
        self, problem: Mapping[str, int] | None = None, sources: CatalogOptions = CatalogOptions()
    ) -> KernelDescription:
        """Return what they say at a problem size, with paths relative to the current folder. Raises UsageError."""
        from ncu_swizzle.kernels import nvcc_options

        options = nvcc_options.options(self.define, self.include, self.nvcc_option, self.std, Path())
        before, after = (nvcc_options.split(texts, Path()) for texts in (self.before, self.after))
        return KernelDescription(
            launch=self, options=options, tuning=self.tuning, before=before, after=after, problem=problem or {},
            sources=sources,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PairOptions(KernelOptions):
    """The same, for a kernel that is compiled twice with different options."""

    before: tuple[str, ...] = option(
        (), "For a .cu: nvcc options for the kernel before, such as -DSWIZZLE=0.", "OPTIONS"
    )
    after: tuple[str, ...] = option((), "For a .cu: nvcc options for the kernel after; both are profiled.", "OPTIONS")


@dataclass(frozen=True, kw_only=True)
class KernelDescription:
    """What a command says about the kernels that it names: how they are launched, compiled, and found.

    It is made from `KernelOptions`; options are split, and their paths absolute.
    """

    launch: LaunchOptions = LaunchOptions()
    options: tuple[str, ...] = ()  # nvcc's
    tuning: tuple[str, ...] = ()  # NAME=VALUE each, for the compiler of a function in Python
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    problem: Mapping[str, int] = field(default_factory=dict)
    sources: CatalogOptions = CatalogOptions()

    @property
    def typed(self) -> list[str]:
        """The given options that apply to a .cu file only."""
        launch = self.launch
        named = {
            "--kernel": launch.entry, "--grid": launch.grid, "--block": launch.block, "--shared": launch.shared,
            "--arg": launch.args, "-D, -I, --std or --nvcc-option": self.options, "--option": self.tuning,
            "--before": self.before, "--after": self.after,
        }  # fmt: skip
        return [name for name, value in named.items() if value]

    def command(self, name: str, what: str) -> str:
        """Return what to type for another command about a file or kernel, with the same launch, sizes and sources."""
        launch, sources = self.launch, self.sources
        named = (
            ("--kernel", launch.entry), ("--grid", launch.grid), ("--block", launch.block), ("--shared", launch.shared),
            *(("--arg", argument) for argument in launch.args),
            ("--arch", launch.arch), ("--sample", "" if launch.sample is None else str(launch.sample)),
            *(("", option) if option[:2] in ("-D", "-I") else ("--nvcc-option", option) for option in self.options),
            *(("--option", option) for option in self.tuning),
            ("--problem", ",".join(f"{name}={size}" for name, size in self.problem.items())),
            ("--config", sources.config),
        )  # fmt: skip
        words = [word for flag, value in named if value for word in (flag, value) if word]
        return shlex.join(["ncu-swizzle", name, as_word(what), *words, *(["--trust"] if sources.trust else [])])

    @property
    def pair(self) -> bool:
        """Whether a file's kernel is compiled twice: its two variants are before and after."""
        return bool(self.before or self.after)

    def of_entry(self, name: str) -> KernelDescription:
        """Return the description of what is named in a file, with what --kernel names inside of that."""
        entry = "::".join(filter(None, (name, self.launch.entry)))
        return replace(self, launch=replace(self.launch, entry=entry))

    def refuse_beside(self, kernel: str) -> None:
        """Raise UsageError if options that only apply to a .cu file are given for something else."""
        if typed := self.typed:
            what = f"{', '.join(typed)} describe{'s' if len(typed) == 1 else ''} a .cu file"
            raise UsageError(f"{what}, and {kernel} is not one", f"leave out {typed[0]}, or give a .cu file instead")
