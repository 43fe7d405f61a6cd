"""The known failures of ncu: the text that identifies each, what it means, and what to do; see `ncu.diagnose`.

The numbers are those of ``docs/failures.md``. ncu mixes the program's output with its own, so a text counts only on
one of ncu's own lines (``==ERROR==``, ``==WARNING==``, ``==PROF==``), unless no other program would print it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.base.errors import (
    CountersForbidden,
    EnvironmentLacking,
    Hint,
    NcuSwizzleError,
    NothingProfiled,
    ProgramFailed,
    Typed,
    UsageError,
)

BUSY = 2  # temporary: another profiler holds the counters
UNWRITABLE, OPTION, TEMPORARY, NO_PROGRAM, NO_KERNELS = 19, 20, 21, 22, 6
FULL_BYTES = 1 << 20  # a disk with less free space counts as full: no report is smaller
OWN = re.compile(r"==(?:ERROR|WARNING|PROF)==")
LONGEST_LINE = 2_000  # characters of one of ncu's lines that are looked at


@dataclass(frozen=True, kw_only=True)
class MachineState:
    """What is known besides ncu's output. The defaults describe a healthy machine."""

    free_bytes: int | None = None  # on the report's disk
    home_writable: bool = True
    lock: str = ""  # the path of ncu's lock file, if another user owns it
    report_bytes: int | None = None  # the report's size, if ncu left one

    @property
    def full(self) -> bool:
        """Whether the disk is full."""
        return self.free_bytes is not None and self.free_bytes < FULL_BYTES


@dataclass(frozen=True)
class NcuLog:
    """What ncu and the program printed, and ncu's own lines in it, from their mark on."""

    text: str
    own: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> NcuLog:
        marked = ((line, OWN.search(line)) for line in text.split("\n"))
        return cls(text, tuple(line[mark.end() : mark.end() + LONGEST_LINE] for line, mark in marked if mark))

    def find(self, pattern: str) -> re.Match[str] | None:
        """Return the first match on one of ncu's own lines."""
        return next(filter(None, (re.search(pattern, line) for line in self.own)), None)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A text that ncu prints, what it means, and the fix. `anywhere`: the text counts on any line."""

    number: int
    pattern: str
    error: type[NcuSwizzleError]
    message: str
    hint: str
    anywhere: bool = False

    def match(self, log: NcuLog) -> re.Match[str] | None:
        return re.search(self.pattern, log.text) if self.anywhere else log.find(self.pattern)


def without_counters(program: Sequence[str], captured: Sequence[str] = (), replayed: Sequence[str] = ()) -> Hint:
    """Return what to type if a program's counters are forbidden, with options for the capture and for its replay.

    A line for the shell, then why it helps. CUPTI's callbacks, which the capture uses, need no permission.
    """
    capture = Typed(shlex.join(["ncu-swizzle", "capture", *captured, "--", *program]))
    replay = Typed(shlex.join(["ncu-swizzle", "profile", "app.launches", *replayed]))
    return Hint(capture, " && ", replay, f"\n  Exact counts by replay, without counters, but no times. {PERMISSION}")


WITHOUT_NCU = "run the program without ncu first; for a catalogue kernel: ncu-swizzle profile --no-ncu KERNEL"
PERMISSION = (
    "To measure: run as root, give the container --cap-add=SYS_ADMIN, or load the driver with 'options nvidia "
    "NVreg_RestrictProfilingToAdminUsers=0'; on WSL, allow it in the NVIDIA Control Panel."
)
OWN_TMPDIR = "use your own folder: mkdir -p ~/tmp && export TMPDIR=~/tmp"
WRITABLE_HOME = "set HOME to a writable folder: export HOME=/tmp/home && mkdir -p $HOME"
OLDER_NCU = "use an ncu of the driver's CUDA version: --ncu PATH, or update the driver; ncu-swizzle doctor shows both"

# In search order. Whatever the cause, ncu also prints that the application returned an error code and that no kernel
# was profiled: those come last.
FAILURES = (
    Failure(
        number=1,
        pattern="ERR_NVGPUCTRPERM",
        error=CountersForbidden,
        message="the driver allows only privileged users to read the GPU's performance counters (ERR_NVGPUCTRPERM)",
        hint=Hint("add ", Typed("--engine emulated"), f": exact counts without counters, but no times. {PERMISSION}"),
        anywhere=True,
    ),
    Failure(
        number=BUSY,
        pattern="driver resource was unavailable",
        error=EnvironmentLacking,
        message="another profiler (often DCGM) holds the GPU's performance counters",
        hint="pause it: dcgmi profile --pause, or end the other ncu or nsys, then try again",
    ),
    Failure(
        number=3,
        pattern=r"Failed to (?:open|create)\S* lock file|InterprocessLockFailed",
        error=EnvironmentLacking,
        message="ncu's lock file belongs to another user",
        hint=OWN_TMPDIR,
        anywhere=True,
    ),
    Failure(
        number=4,
        pattern="(?i:cuda driver is not compatible with nsight compute)",
        error=EnvironmentLacking,
        message="this ncu does not support the installed driver",
        hint=OLDER_NCU,
    ),
    Failure(
        number=5,
        pattern=r"LibraryNotLoaded|failed to connect to the CUDA driver",
        error=EnvironmentLacking,
        message="ncu could not load the driver's profiling libraries",
        hint="use an ncu that matches the driver (--ncu PATH); remove stub folders from LD_LIBRARY_PATH; some "
        "sandboxes and "
        "containers hide these libraries",
    ),
    Failure(
        number=15,
        pattern=r"Unsupported GPU|Profiling is not supported on device",
        error=EnvironmentLacking,
        message="this ncu does not support the GPU",
        hint="ncu --list-chips shows what it supports; to use another ncu: --ncu PATH",
    ),
    Failure(
        number=11,
        pattern="Cannot lock GPU clock frequencies",
        error=EnvironmentLacking,
        message="the clocks of a MIG instance cannot be locked",
        hint="profile with --clock-control none",
    ),
    Failure(
        number=8,
        pattern=r"did not match any section",
        error=EnvironmentLacking,
        message="ncu did not find the section",
        hint="ncu --list-sections shows the available ones; for your own, name the folder with --section-folder; if "
        "it is "
        "SwizzleConflicts, reinstall ncu-swizzle",
    ),
    Failure(
        number=7,
        pattern=r"Failed to find metric|Failed to access the following \d+ metrics?",
        error=EnvironmentLacking,
        message="this ncu or GPU lacks a requested metric",
        hint="ncu --query-metrics shows the available ones; to use another ncu: --ncu PATH",
    ),
    Failure(
        number=10,
        pattern=r"bad allocation|Failed to save memory for replay|ContextSaveFailed",
        error=ProgramFailed,
        message="ncu ran out of memory while saving device memory between passes",
        hint="use --replay-mode application (it needs no copy of the memory), a smaller --problem or fewer metrics",
    ),
    Failure(
        number=UNWRITABLE,
        pattern=r"Unable to write to file|No space left on device",
        error=EnvironmentLacking,
        message="ncu could not write its report",
        hint="check the folder's permissions and the free disk space, or name another path with -o",
    ),
    Failure(
        number=TEMPORARY,
        pattern="Failed to access the temporary directory",
        error=EnvironmentLacking,
        message="ncu cannot write to the temporary folder",
        hint=OWN_TMPDIR,
    ),
    Failure(
        number=NO_PROGRAM,
        pattern=r"'(?P<program>[^']*)' does not exist or is not an executable",
        error=UsageError,
        message="{program} does not exist or is not executable",
        hint="check its path and permissions with ls -l; put the interpreter before a script, for example python",
    ),
    Failure(
        number=9,
        pattern=r"Failed to prepare kernel for profiling|Failed to profile \"|Unknown [Ee]rror on device|UnknownError|"
        r"LaunchFailed",
        error=ProgramFailed,
        message="ncu could not profile the kernel",
        hint="run the program under compute-sanitizer: the kernel may access memory out of bounds; or ncu is newer "
        "than the "
        "CUDA version that the program uses: --ncu PATH",
    ),
    Failure(
        number=OPTION,
        pattern=r"unrecogni[sz]ed option|the argument .{0,200} for option|cannot be specified more than once",
        error=UsageError,
        message="ncu rejected an option that was passed to it",
        hint="ncu --help lists its options; those of ncu-swizzle come before --",
    ),
    Failure(
        number=14,
        pattern="Connection error detected communicating with target application",
        error=ProgramFailed,
        message="the profiled program died while ncu was profiling it",
        hint=Hint(WITHOUT_NCU, "; dmesg shows whether the OOM killer ended it"),
    ),
    Failure(
        number=12,
        pattern=r"The application returned an error code \((?P<code>-?\d+)\)",
        error=ProgramFailed,
        message="the profiled program exited with code {code}",
        hint=WITHOUT_NCU,
    ),
    Failure(
        number=13,
        pattern=r"target process may have exited|terminated before first instrumented API call",
        error=ProgramFailed,
        message="the profiled program ended before ncu saw a kernel launch: it made no CUDA call",
        hint=Hint(WITHOUT_NCU, "; if it starts child processes, --target-processes all profiles them"),
    ),
    Failure(
        number=NO_KERNELS,
        pattern="No kernels were profiled",
        error=NothingProfiled,
        message="ncu saw no kernel to profile",
        hint="check the filters: -k, -s, -c, --nvtx-include, --target-processes",
    ),
    Failure(
        number=16,
        pattern=r"Could not deploy stock|(?i:could not determine user home directory)",
        error=EnvironmentLacking,
        message="ncu could not write to the home folder",
        hint=WRITABLE_HOME,
    ),
)

# Non-fatal warnings of ncu, and what they mean for the results.
NOTES = (
    (
        r"Unable to access the following (?P<count>\d+) metrics?: (?P<names>.*)",
        "ncu could not read {count} metrics: {names}",
    ),
    (
        "Backing up device memory in system memory",
        "GPU memory could not hold a copy of the kernel's data: ncu kept it in host memory and took longer; "
        "--replay-mode application needs no copy",
    ),
    (
        r"Could not deploy stock|(?i:could not determine user home directory)",
        "ncu could not write to the home folder and used its built-in sections; HOME sets that folder",
    ),
)
