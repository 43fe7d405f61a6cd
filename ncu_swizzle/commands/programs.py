"""What ``ncu-swizzle profile`` takes beyond the catalogue: a program after ``--``, and ncu's filters by ncu's names."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ncu_swizzle.errors import UsageError

if TYPE_CHECKING:
    from ncu_swizzle.ncu.options import Launches
    from ncu_swizzle.profiles.pairing import Choice

AFTER_DASHES = "ncu_swizzle.after_dashes"


class WithProgram(TyperCommand):
    """A command that keeps what follows the first ``--`` apart from its own arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what stands before ``--``; `after_dashes` returns the rest."""
        dashes = args.index("--") if "--" in args else len(args)
        ctx.meta[AFTER_DASHES] = tuple(args[dashes + 1 :])
        return super().parse_args(ctx, args[:dashes])


def after_dashes(context: typer.Context) -> tuple[str, ...]:
    found: tuple[str, ...] = context.meta.get(AFTER_DASHES, ())
    return found


class NameBase(StrEnum):
    function = "function"
    demangled = "demangled"
    mangled = "mangled"


class FilterMode(StrEnum):
    everywhere = "global"
    gpu = "per-gpu"
    configuration = "per-launch-config"


class Processes(StrEnum):
    all = "all"
    application = "application-only"


class OnOff(StrEnum):
    on = "on"
    off = "off"


class GraphAs(StrEnum):
    node = "node"
    graph = "graph"


class MatchBy(StrEnum):
    grid = "grid"
    name = "name"
    all = "all"


class YesNo(StrEnum):
    yes = "yes"
    no = "no"


KernelNameOption = Annotated[
    str,
    typer.Option(
        "--kernel-name",
        "-k",
        metavar="NAME|regex:EXPR",
        help="Only kernels of such a name; this and the next as ncu's.",
    ),
]
NameBaseOption = Annotated[NameBase | None, typer.Option(help="What -k is compared with.")]
KernelIdOption = Annotated[str, typer.Option(metavar="CONTEXT:STREAM:NAME:N", help="The Nth launch of a kernel.")]
LaunchSkipOption = Annotated[int, typer.Option("--launch-skip", "-s", min=0, help="Launches that are not profiled.")]
FilterModeOption = Annotated[FilterMode | None, typer.Option(help="How -s and -c count.")]
NvtxOption = Annotated[bool, typer.Option("--nvtx", help="The next two switch it on.")]
NvtxIncludeOption = Annotated[list[str], typer.Option(metavar="RANGE", help="Only in this range; repeatable.")]
NvtxExcludeOption = Annotated[list[str], typer.Option(metavar="RANGE", help="Not in this range; repeatable.")]
TargetOption = Annotated[Processes | None, typer.Option(help="Its children too? Default: all.")]
TargetFilterOption = Annotated[str, typer.Option(metavar="NAME|regex:EXPR", help="Only processes of such a name.")]
StartOption = Annotated[OnOff | None, typer.Option(help="Or from cudaProfilerStart on. Default: on.")]
GraphOption = Annotated[GraphAs | None, typer.Option(help="A graph's kernels, or it as a whole.")]
MatchOption = Annotated[MatchBy | None, typer.Option(help="For --replay-mode application.")]
ImportOption = Annotated[YesNo | None, typer.Option(help="Keep sources in the report. Default: yes.")]
NcuArgsOption = Annotated[
    list[str], typer.Option("--ncu-args", metavar="ARGS", help="Other options of ncu's, as a shell would have them.")
]
PairOption = Annotated[
    list[str],
    typer.Option("--pair", metavar="A=B", help="Kernels that belong together: names, regex:EXPR or launch numbers."),
]
SelectNameOption = Annotated[
    str,
    typer.Option("--kernel-name", "-k", metavar="NAME|regex:EXPR", help="Of many kernels, only those of such a name."),
]
SelectLaunchOption = Annotated[
    list[int], typer.Option("--launch", metavar="N", min=0, help="Of many launches, only this number; repeatable.")
]


def choice(kernel_name: str, launch: list[int], pair: list[str]) -> Choice:
    """Return which launches of reports are looked at, and which belong together."""
    from ncu_swizzle.profiles import pairing

    return pairing.Choice(kernel_name, tuple(launch), tuple(pairing.forced_pair(text) for text in pair))


def words(texts: list[str]) -> tuple[str, ...]:
    """Return options that were given as a shell has them, as ncu gets them. Raises UsageError."""
    try:
        return tuple(word for text in texts for word in shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--ncu-args: {error}", "--ncu-args '--sampling-interval 0'") from error


def refuse_filters(kernel: str, filters: Launches, pairs: list[str]) -> None:
    """Raise UsageError where filters for a program's launches came with a kernel of the catalogue, which has one.

    A program without ``--`` before it is told from a kernel too.
    """
    from ncu_swizzle.catalog import family

    if Path(kernel).is_file() and Path(kernel).suffix not in family.FILES:
        raise UsageError(
            f"{kernel} is a file and no kernel of the catalogue",
            f"a program stands after --: ncu-swizzle profile -- {kernel}",
        )
    given = (*filters.given, *(["--pair"] if pairs else []))
    if given:
        raise UsageError(
            f"{', '.join(given)}: {kernel} is one kernel, there is nothing to choose",
            "ncu-swizzle profile OPTIONS -- ./app is for programs; what follows -- after a kernel goes to ncu as it is",
        )


def refuse_catalogue(**given: bool) -> None:
    """Raise UsageError where options about the catalogue came with a program."""
    wrong = [f"--{option}" for option, is_given in given.items() if is_given]
    if wrong:
        raise UsageError(
            f"{', '.join(wrong)}: a program is profiled as it is, this is about kernels of the catalogue",
            "the program's own arguments follow its name: ncu-swizzle profile -- ./app --size 4096",
        )
