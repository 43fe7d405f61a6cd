"""The options of reports and pages, and where numbers come from: what an engine's name implies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.files import write_atomically
from ncu_swizzle.base.texts import option


@dataclass(frozen=True)
class Destination:
    """The folder of a run, by default one in swizzle-out."""

    export: Path | None = option(
        None, "Where to write; default: a folder in swizzle-out.", "FOLDER", ("-o", "--out"), common=True
    )
    force_overwrite: bool = option(
        False,
        "Replace the run in FOLDER, or the last of this name.",
        flags=("-f", "--force-overwrite"),
        common=True,
    )


def kernel_names() -> Any:
    """Return the option that selects kernels, as `KernelFilter` does in all commands."""
    return option(
        "",
        "Only kernels of this name, or with EXPR in it.",
        "NAME|regex:EXPR",
        ("-k", "--kernel-name"),
        common=True,
    )


NONE, AUTO = "none", "auto"
LIMIT = "[KERNEL:][ACCESS=]NUMBER"


@dataclass(frozen=True)
class Companions:
    """A baseline and a reference, each a kernel, a file, a run, "none", or "auto"."""

    group: ClassVar[str] = "Comparing"

    baseline: str = option(
        AUTO, "What to compare with; auto: the catalogue's baseline.", "NAME|FILE|RUN|none", common=True
    )
    reference: str = option(AUTO, "A third column; auto: the library's kernel, if available.", "NAME|FILE|none")


@dataclass(frozen=True, kw_only=True)
class Judging:
    """What profiles are judged by; empty to use the settings."""

    group: ClassVar[str] = "Limits and baselines"

    max_excessive: tuple[str, ...] = option((), "Wavefronts beyond the ideal.", LIMIT, common=True)
    max_degree: tuple[str, ...] = option((), "Actual over ideal wavefronts.", LIMIT, common=True)
    max_sectors: tuple[str, ...] = option((), "Actual over ideal sectors of global memory.", LIMIT)
    max_regression: tuple[str, ...] = option(
        (), "Slower than the baseline, beyond noise.", "[KERNEL:]PERCENT", common=True
    )
    baseline: str = option("", "Default: ncu-swizzle-baseline.json, if it exists.", "FILE|none", common=True)
    save_baseline: bool = option(
        False, "Save the profiles as the baseline; judge nothing.", common=True,
        flags=("--save-baseline",),
    )  # fmt: skip
    kernel_name: str = kernel_names()
    allow_recorded: bool | None = option(
        None, "Check recorded values too.", flags=("--allow-recorded/--no-allow-recorded",)
    )

    @property
    def limits(self) -> tuple[tuple[str, ...], ...]:
        """The limits as typed, in the order of `gate.baseline.LIMITS`."""
        return self.max_excessive, self.max_degree, self.max_sectors, self.max_regression


@dataclass(frozen=True, kw_only=True)
class LintOptions:
    """What a lint does besides listing: compare with a commit, write a page, rewrite sources; and its limits."""

    against: str = option("", "Fail only what got worse: --against origin/main.", "COMMIT", common=True)
    html: Path | None = option(None, "Write a page of the kernels, as emulated.", "FILE|-", common=True)
    fix: bool = option(False, "Rewrite .cu files if that is proved, then lint.", flags=("--fix",), common=True)
    diff: bool = option(False, "Show what --fix writes; SARIF has it as fixes.", flags=("--diff",), common=True)
    run: bool = option(
        False, "Build FILE and run it without a GPU; lint what it launches.", flags=("--run",), common=True
    )
    no_races: bool = option(False, "Look for no races and deadlocks.", common=True)
    max_degree: tuple[str, ...] = option((), "Actual over ideal wavefronts of a line; default 1.", LIMIT, common=True)
    max_sectors: tuple[str, ...] = option((), "Actual over ideal sectors of a line.", LIMIT, common=True)


Makers = Mapping[str, Callable[[], str]]  # by format


@dataclass(frozen=True, kw_only=True)
class WrittenFormats:
    """Files to write in addition to what a command prints; ``-`` is stdout, which then holds nothing else."""

    group: ClassVar[str] = "Output"

    def __post_init__(self) -> None:
        for name, file in self.named.items():
            if file.startswith("-") and file != "-":  # the next option, where FILE was left out
                raise UsageError(f"--{name} takes a file, or - for stdout, not {file}", f"--{name} - {file}")
        if list(self.named.values()).count("-") > 1:
            raise UsageError("only one format can go to stdout", "name a file for the others")

    @property
    def named(self) -> dict[str, str]:
        """The file of each requested format."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value and isinstance(value, str)}

    def write(self, makers: Makers) -> bool:
        """Write each format to its file or to stdout; return whether one went to stdout."""
        for name, file in self.named.items():
            if file != "-":
                write_atomically(Path(file), makers[name]().encode())
        for name, file in self.named.items():
            if file == "-":
                sys.stdout.write(makers[name]())
                return True
        return False


@dataclass(frozen=True, kw_only=True)
class Formats(WrittenFormats):
    """The formats of what is profiled and compared."""

    json: str = option("", "Write everything as JSON; - prints only that.", "FILE|-", common=True)
    markdown: str = option("", "Write a summary for a pull request.", "FILE|-", common=True)
    csv: str = option("", "Write the table of instructions or of sweep points.", "FILE|-")


@dataclass(frozen=True, kw_only=True)
class PageFormats(WrittenFormats):
    """The formats of what is drawn."""

    json: str = option("", "Write everything as JSON; - prints only that.", "FILE|-", common=True)
    html: str = option("", "Write it as an HTML page.", "FILE|-", common=True)


@dataclass(frozen=True, kw_only=True)
class Outputs(WrittenFormats):
    """The formats of a verdict."""

    json: str = option("", "Write everything as JSON; - prints only that.", "FILE|-", common=True)
    sarif: str = option("", "Write SARIF 2.1.0.", "FILE|-", common=True)
    junit: str = option("", "Write JUnit XML.", "FILE|-")
    github: bool = option(
        False, "Print GitHub annotations; append to the step summary.", flags=("--github",), common=True
    )


# Where numbers come from: the name of an engine, which profiles, baselines and sweeps save, and what it implies.

NCU, RECORDED, EMULATED = "ncu", "recorded", "emulated"


@dataclass(frozen=True)
class Origin:
    """What the engine that made numbers says of them; `provenance` is JSON's field (docs/reference/schemas.md)."""

    provenance: str
    measured: bool = False  # by ncu, for this very report
    recorded: bool = False  # measured earlier, and shipped
    computed: bool = False  # by the emulator


ORIGINS = {
    NCU: Origin("measured", measured=True),
    RECORDED: Origin("recorded", recorded=True),
    EMULATED: Origin("computed", computed=True),
}
COMPUTED = ORIGINS[EMULATED].provenance


def origin_of(engine: str) -> Origin:
    """Return the origin of an engine's numbers; that of another name, which a saved file may have, is the name."""
    return ORIGINS.get(engine) or Origin(engine)
