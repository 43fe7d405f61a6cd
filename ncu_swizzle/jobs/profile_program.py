"""Profile any program under ncu: one profile per kernel launch, in the folder of one run."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from ncu_swizzle.bounds import quotation
from ncu_swizzle.cubin import demangled
from ncu_swizzle.engines.context import Context, Progress, Request, silent
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, NothingProfiled, ProgramFailed, UsageError
from ncu_swizzle.files import exists, slug, write_atomically, write_json
from ncu_swizzle.jobs import compare
from ncu_swizzle.jobs.companions import AUTO, NONE
from ncu_swizzle.jobs.entries import saved_profiles
from ncu_swizzle.jobs.program_output import ProgramOutput
from ncu_swizzle.jobs.warm_up import meanwhile
from ncu_swizzle.ncu import failures, gpu, installed, profiler
from ncu_swizzle.ncu.options import Launches
from ncu_swizzle.ncurep import launch_facts
from ncu_swizzle.profiles import run_folder
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.profiles.engine import NCU, RECORDED, Engine
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.profiles.pairing import Forced, Row
from ncu_swizzle.profiles.result import JobResult

MOST_LAUNCHES = 32  # the default limit: a training loop has thousands
DEFAULTS = Launches(target_processes="all", profile_from_start="on", import_source="yes")
REPORT, LOG = "report.ncu-rep", "program.log"

_INTERPRETERS = re.compile(r"(python|pypy)[\d.]*$")


@dataclass(frozen=True)
class UserProgram:
    """A program to run: its command line, and its working folder."""

    argv: tuple[str, ...]
    folder: Path

    @property
    def name(self) -> str:
        """The name of the executable, or of the script or module that Python runs."""
        return program_name(self.argv)

    def __str__(self) -> str:
        return shlex.join(self.argv)


def program_name(argv: Sequence[str]) -> str:
    """Return a program's name: that of the executable, or of the script or module that Python runs."""
    first = PurePosixPath(argv[0]).name if argv else ""
    if not _INTERPRETERS.match(first):
        return first or "program"
    words = iter(argv[1:])
    for word in words:
        if word == "-m":
            return next(words, first)
        if word == "-c":
            return first
        if word in ("-W", "-X"):
            next(words, "")
        elif not word.startswith("-"):
            return PurePosixPath(word).stem or first
    return first


def profile(
    program: UserProgram,
    request: Request,
    baseline: str = AUTO,
    pairs: Sequence[Forced] = (),
    destination: Destination = Destination(),
    progress: Progress = silent,
) -> JobResult:
    """Profile a program's kernels into the folder of a run, compared with a baseline: a run, report or saved profile.

    The program runs in its own folder and environment; its output is saved. Raises UsageError, EnvironmentLacking, and
    ProgramFailed with the program's last lines of output.
    """
    launches = replace(DEFAULTS, **request.options.launches.set)
    request = replace(request, ncu=_usable_ncu(program, request), options=replace(request.options, launches=launches))
    run_folder.refuse_to_overwrite(destination)
    name, engine = slug(program.name), Engine(NCU)
    before = baseline_profiles(baseline)
    with meanwhile(dict), run_folder.staging(destination.export or run_folder.DEFAULT / name) as staged:
        after = _measure(program, Context(request, engine, staged, progress))
        from ncu_swizzle.profiles import many_launches  # pandas and Jinja: loaded while ncu measures
        from ncu_swizzle.render import page

        if before:
            rows, _ = compare.arrange([before, after], [], pairs)
            columns = many_launches.columns([baseline, name])
        else:
            rows, columns = [(profile,) for profile in after], (name,)
        comparisons, notes = many_launches.lay_out(rows, columns, _limited(len(after), request))
        files = save_rows(staged, rows, columns)
        title = " → ".join(columns)
        write_atomically(staged / run_folder.REPORT, page.render_all(comparisons, notes, title).encode())
        run_folder.finish(staged, name, files, columns, rows)
        folder = run_folder.publish(staged, name, destination)
    return JobResult(comparisons, engine, folder, notes, title)


def _usable_ncu(program: UserProgram, request: Request) -> Path:
    """Return the ncu to use; raise early if anything is missing."""
    if request.engine == RECORDED:
        raise UsageError(
            "there are no recordings of your programs", "ncu-swizzle report FILE.ncu-rep shows a report you have"
        )
    if not program.argv:
        raise UsageError("no program follows --", "ncu-swizzle profile -- ./app --size 4096")
    first = program.argv[0]
    executable = program.folder / first if "/" in first else shutil.which(first)
    if executable is None or not shutil.which(executable):
        raise UsageError(f"{first} is not an executable program", f"run it by itself first: {program}")
    if request.engine == "auto" and (reason := gpu.absent()):
        raise EnvironmentLacking(
            f"ncu cannot measure here: {reason}",
            "profile on a machine with a GPU, then view the report here: ncu-swizzle report FILE.ncu-rep",
        )
    return installed.find(request.ncu)


def baseline_profiles(baseline: str) -> Sequence[Profile]:
    """Return the profiles of a baseline; none for "auto" and "none". Raises UsageError if it does not exist."""
    if baseline in ("", AUTO, NONE):
        return ()
    if not exists(Path(baseline)):
        raise UsageError(f"--baseline {baseline} does not exist", "give a run, a .ncu-rep or a saved profile")
    return saved_profiles(Path(baseline))


def _measure(program: UserProgram, context: Context) -> Sequence[Profile]:
    """Run the program under ncu; leave the report and the program's output in the folder."""
    file, request = context.folder / REPORT, context.request
    output = ProgramOutput(context.folder / LOG)
    try:
        notes = profiler.collect(
            installed.find(request.ncu),
            program.argv,
            file,
            request.options,
            request.timeout_s,
            on_progress=context.percent_of(program.name),
            folder=program.folder,
            on_output=output.feed,
        )
    except ProgramFailed as error:
        output.close()
        raise _explained(error, program, output) from None
    finally:
        output.close()
    from ncu_swizzle.ncurep import container, python_kernels, reader

    kernels = python_kernels.known(container.inspect(file).results, folder=program.folder)
    write_json(launch_facts.facts_path(file), python_kernels.as_facts(kernels))
    launch_facts.seal(file, notes)
    return reader.read(file)


def _explained(error: ProgramFailed, program: UserProgram, output: ProgramOutput) -> NcuSwizzleError:
    """Return the error with the kernels that the program launched, or its last lines of output."""
    hint = error.hint.replace(failures.WITHOUT_NCU, f"run it without ncu first: {program}")
    if isinstance(error, NothingProfiled):
        if output.kernels:
            return NothingProfiled(
                f"{error}; {program.name} launches {quotation.some(output.kernels)}",
                "check the filters: -k, -s, -c, --nvtx-include, --kernel-name-base",
            )
        return NothingProfiled(
            f"{error} of {program.name}",
            "does it use the GPU? --profile-from-start, --target-processes and --nvtx-include select what to profile",
        )
    last_lines = output.last_lines
    more = f"; {program.name}'s last output:\n{last_lines}" if last_lines and last_lines not in str(error) else ""
    return type(error)(f"{error}{more}", hint)


def _limited(launches: int, request: Request) -> list[str]:
    """Return a note if the default limit on launches was reached."""
    if launches < MOST_LAUNCHES or request.options.launch_count != MOST_LAUNCHES:
        return []
    return [
        f"Only the first {launches} launches were profiled; the program may have launched more. "
        "-c N profiles more, -k NAME and -s N select others."
    ]


def save_rows(staged: Path, rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Save each launch under its number and name, a baseline's with the baseline's name in front."""
    files = []
    for row in rows:
        for column, launched in zip(columns, row, strict=True):
            if launched is not None:
                prefix = f"{slug(column)}." if column != columns[-1] else ""
                kernel = demangled.function(launched.kernel.function) or launched.kernel.name
                files.append(f"{prefix}{launched.launch.index:03d}-{slug(kernel)}.json")
                launched.save(staged / files[-1])
    return files
