"""How ncu fails, and what to do about it: what it printed, how it ended and what lay around → an error. Pure.

The numbers are those of ``docs/failures.md``. ncu mixes the program's output with its own, so a text counts only in
a line that is ncu's own (``==ERROR==``, ``==WARNING==``, ``==PROF==``), except where nobody else would say it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, NothingProfiled, ProgramFailed, UsageError

BUSY = 2  # the failure that passes when somebody else is done
UNWRITABLE, OPTION, TEMPORARY, NO_PROGRAM, NO_KERNELS = 19, 20, 21, 22, 6
FULL_BYTES = 1 << 20  # a disk with less than this left is full: no report is smaller
OWN = r"==(?:ERROR|WARNING|PROF)==[^\n]*?"


@dataclass(frozen=True)
class State:
    """What is known beside ncu's output. The defaults are those of a machine where nothing is wrong."""

    free_bytes: int | None = None  # on the report's disk
    home_writable: bool = True
    lock: str = ""  # another user's lock file: its path
    report_bytes: int | None = None  # of the report, where ncu left one

    @property
    def full(self) -> bool:
        """Whether the disk is."""
        return self.free_bytes is not None and self.free_bytes < FULL_BYTES


@dataclass(frozen=True)
class Failure:
    """A text of ncu's, what it means, and the cure. `anywhere`: the text counts in any line."""

    number: int
    pattern: str
    error: type[NcuSwizzleError]
    message: str
    hint: str
    anywhere: bool = False

    def found_in(self, log: str) -> re.Match[str] | None:
        return re.search(self.pattern if self.anywhere else f"{OWN}(?:{self.pattern})", log)


WITHOUT_NCU = "run the program without ncu first; for a kernel of the catalogue: ncu-swizzle run KERNEL"
NO_COUNTERS = (
    "run as root, give the container --cap-add=SYS_ADMIN, or load the driver with "
    "'options nvidia NVreg_RestrictProfilingToAdminUsers=0'; on WSL, the NVIDIA control panel allows it"
)
OWN_TMPDIR = "use a folder of your own: mkdir -p ~/tmp && export TMPDIR=~/tmp"
WRITABLE_HOME = "set HOME to a folder that can be written to: export HOME=/tmp/home && mkdir -p $HOME"
OLDER_NCU = "use the ncu of the driver's CUDA version: --ncu PATH, or update the driver; ncu-swizzle doctor shows both"

# In the order in which they are looked for. ncu goes on to say that the application returned an error code and that
# no kernel was profiled whatever the cause was: those come last.
FAILURES = (
    Failure(
        1,
        "ERR_NVGPUCTRPERM",
        EnvironmentLacking,
        "the driver lets only privileged users read the GPU's performance counters (ERR_NVGPUCTRPERM)",
        NO_COUNTERS,
        anywhere=True,
    ),
    Failure(
        BUSY,
        "driver resource was unavailable",
        EnvironmentLacking,
        "another profiler (often DCGM) holds the GPU's performance counters",
        "pause it: dcgmi profile --pause, or end the other ncu or nsys, then try again",
    ),
    Failure(
        3,
        r"Failed to (?:open|create)\S* lock file|InterprocessLockFailed",
        EnvironmentLacking,
        "ncu's lock file belongs to another user",
        OWN_TMPDIR,
        anywhere=True,
    ),
    Failure(
        4,
        "(?i:cuda driver is not compatible with nsight compute)",
        EnvironmentLacking,
        "this ncu does not support the installed driver",
        OLDER_NCU,
    ),
    Failure(
        5,
        r"LibraryNotLoaded|failed to connect to the CUDA driver",
        EnvironmentLacking,
        "ncu could not load the driver's profiling libraries",
        "match ncu with the driver (--ncu PATH); take stub folders out of LD_LIBRARY_PATH; some sandboxes and "
        "containers hide those libraries",
    ),
    Failure(
        15,
        r"Unsupported GPU|Profiling is not supported on device",
        EnvironmentLacking,
        "this ncu does not support the GPU",
        "ncu --list-chips shows what it supports; another one: --ncu PATH",
    ),
    Failure(
        11,
        "Cannot lock GPU clock frequencies",
        EnvironmentLacking,
        "a MIG instance's clocks cannot be locked",
        "profile with --clock-control none",
    ),
    Failure(
        8,
        r"did not match any section",
        EnvironmentLacking,
        "ncu did not find the section",
        "ncu --list-sections shows what there is; with a folder of your own, --section-folder has to name it; if it "
        "is SwizzleConflicts, install ncu-swizzle again",
    ),
    Failure(
        7,
        r"Failed to find metric|Failed to access the following \d+ metrics?",
        EnvironmentLacking,
        "this ncu or GPU lacks a metric that was asked for",
        "ncu --query-metrics shows what there is; another version: --ncu PATH",
    ),
    Failure(
        10,
        r"bad allocation|Failed to save memory for replay|ContextSaveFailed",
        ProgramFailed,
        "ncu ran out of memory while saving the kernel's memory between passes",
        "--replay-mode application saves none; or a smaller --problem, or fewer metrics",
    ),
    Failure(
        UNWRITABLE,
        r"Unable to write to file|No space left on device",
        EnvironmentLacking,
        "ncu could not write its report",
        "look at the folder's permissions and the free disk space, or name another place with -o",
    ),
    Failure(
        TEMPORARY,
        "Failed to access the temporary directory",
        EnvironmentLacking,
        "ncu cannot write to the folder for temporary files",
        OWN_TMPDIR,
    ),
    Failure(
        NO_PROGRAM,
        r"'(?P<program>[^']*)' does not exist or is not an executable",
        UsageError,
        "there is no program {program} that can be run",
        "look at its path and its permissions: ls -l; a script needs its interpreter before it, such as python",
    ),
    Failure(
        9,
        r"Failed to prepare kernel for profiling|Failed to profile \"|Unknown [Ee]rror on device|UnknownError|"
        r"LaunchFailed",
        ProgramFailed,
        "ncu could not profile the kernel",
        "run the program under compute-sanitizer: the kernel may read or write out of bounds; or ncu is newer than "
        "the CUDA that the program uses: --ncu PATH",
    ),
    Failure(
        OPTION,
        r"unrecogni[sz]ed option|the argument .* for option|cannot be specified more than once",
        UsageError,
        "ncu did not accept an option that was passed to it",
        "ncu --help shows its options; ours of the same name come before --",
    ),
    Failure(
        14,
        "Connection error detected communicating with target application",
        ProgramFailed,
        "the profiled program died while ncu was profiling it",
        f"{WITHOUT_NCU}; dmesg tells whether the kernel ended it for want of memory",
    ),
    Failure(
        12,
        r"The application returned an error code \((?P<code>-?\d+)\)",
        ProgramFailed,
        "the profiled program ended with exit code {code}",
        WITHOUT_NCU,
    ),
    Failure(
        13,
        r"target process may have exited|terminated before first instrumented API call",
        ProgramFailed,
        "the profiled program ended before ncu saw it launch a kernel: it made no CUDA call",
        f"{WITHOUT_NCU}; if it starts others, --target-processes all follows them",
    ),
    Failure(
        NO_KERNELS,
        "No kernels were profiled",
        NothingProfiled,
        "ncu saw no kernel to profile",
        "look at the filters that follow --: -k, -s, -c, --nvtx-include, --target-processes",
    ),
    Failure(
        16,
        r"Could not deploy stock|(?i:could not determine user home directory)",
        EnvironmentLacking,
        "ncu could not write to the home folder",
        WRITABLE_HOME,
    ),
)

# What ncu says although it goes on, and what that means for the figures.
NOTES = (
    (
        r"Unable to access the following (?P<count>\d+) metrics?: (?P<names>.*)",
        "ncu could not read {count} metrics: {names}",
    ),
    (
        "Backing up device memory in system memory",
        "The GPU's memory did not hold a copy of the kernel's data: ncu kept it in the host's and took longer; "
        "--replay-mode application needs none",
    ),
    (
        r"Could not deploy stock|(?i:could not determine user home directory)",
        "ncu could not write to the home folder and used its own sections in place; HOME names that folder",
    ),
)
