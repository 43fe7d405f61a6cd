"""Profile a program under ncu, or the launches of a launches file by emulating each: one run of all of them."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from ncu_swizzle.base import bounds, pool
from ncu_swizzle.base.errors import (
    CountersForbidden,
    EnvironmentLacking,
    Hint,
    NcuSwizzleError,
    NothingProfiled,
    ProgramFailed,
    UsageError,
    interruption,
)
from ncu_swizzle.base.files import exists, slug, write_atomically, write_json
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.commands.run_kernel import RunRows, make_run, meanwhile
from ncu_swizzle.engines import emulation, machine, ncu, replay
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.engines.measured import MeasuredEngine
from ncu_swizzle.engines.profiles import saved_profiles
from ncu_swizzle.engines.replay import ChosenLaunches, ReplaySettings
from ncu_swizzle.engines.settings import MOST_LAUNCHES, Context, Done, Launches, Progress, Request, silent
from ncu_swizzle.kernels import device
from ncu_swizzle.kernels.options import LAUNCHES
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.comparison import Comparison, JobResult
from ncu_swizzle.reports.container import facts_path, seal
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import AUTO, EMULATED, NONE, RECORDED, Destination
from ncu_swizzle.reports.pairing import Forced

# What a profiled program prints: saved without ncu's lines in it, and quoted if ncu fails.

_NCU_SAYS = re.compile(r"==(PROF|WARNING|ERROR|INFO)==")
_LISTED = re.compile(r"^[^\S\n]*+\d++\. (.*)$", re.MULTILINE)
_AVAILABLE = "Available Kernels:"
MOST_PIECES = 1024  # of up to 64 KiB each: of more, only the end is kept


def own_lines(text: str) -> str:
    """Return what a program printed under ncu, without ncu's own lines."""
    return "".join(line for line in text.splitlines(keepends=True) if not _NCU_SAYS.match(line))


def listed_kernels(text: str) -> list[str]:
    """Return the kernels that ncu lists, as it does if none passed the filters."""
    return _LISTED.findall(text.partition(_AVAILABLE)[2])


# Profile any program under ncu: one profile per kernel launch, in the folder of one run.

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


@dataclass(frozen=True)
class RunOptions:
    """How launches are profiled, what they are compared with (a run, a report, a saved profile), and where it goes."""

    request: Request
    baseline: str = AUTO
    pairs: Sequence[Forced] = ()
    destination: Destination = Destination()


@dataclass(frozen=True)
class ProgramJob:
    """A program's kernels, to be profiled into the folder of a run."""

    program: UserProgram
    how: RunOptions

    def profile(self, progress: Progress = silent) -> JobResult:
        """Run the program in its own folder and environment; its output is saved.

        Raises UsageError, EnvironmentLacking, and ProgramFailed with the program's last lines of output.
        """
        program, request, baseline = self.program, self.how.request, self.how.baseline
        launches = replace(DEFAULTS, **request.options.launches.set)
        most = request.options.launch_count or MOST_LAUNCHES
        options = replace(request.options, launches=launches, launch_count=most)
        request = replace(request, ncu=_usable_ncu(program, request), options=options)
        engine, before = MeasuredEngine(), baseline_profiles(baseline, request)

        def collected(staged: Path) -> RunRows:
            after = _measure(program, Context(request=request, folder=staged, progress=progress))
            notes = _limit_notes(len(after), request)
            return _beside(before, after, self.how.pairs, (baseline, slug(program.name)), notes)

        try:
            with meanwhile(dict, engine):
                return make_run(slug(program.name), engine, self.how.destination, collected)
        except CountersForbidden as error:
            raise CountersForbidden(str(error), _without_counters(program, request, baseline)) from None


def _without_counters(program: UserProgram, request: Request, baseline: str) -> Hint:
    """Return the commands that capture and replay the same launches, with the same baseline."""
    launches, most = request.options.launches, request.options.launch_count or MOST_LAUNCHES
    skipped = launches.launch_skip or 0
    captured = ["-k", launches.kernel_name] if launches.kernel_name and not launches.kernel_name_base else []
    captured += ["-c", str(skipped + most)] if skipped or most != MOST_LAUNCHES else []
    replayed = ["-s", str(skipped)] if skipped else []
    replayed += ["--baseline", baseline] if baseline not in ("", AUTO, NONE) else []
    return ncu.without_counters(program.argv, captured, replayed)


def _beside(
    before: Sequence[Profile], after: Sequence[Profile], pairs: Sequence[Forced], names: tuple[str, str],
    notes: Sequence[str],
) -> RunRows:  # fmt: skip
    """Return a program's launches, each with the matching one of the baseline, if any."""
    from ncu_swizzle.reports import pairing

    if not before:
        return RunRows(rows=[(profile,) for profile in after], columns=names[1:], notes=notes)
    rows, _ = run_kernel.arrange([before, after], [], pairs)
    return RunRows(rows=rows, columns=pairing.columns(names), notes=notes)


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
    if request.engine == AUTO and (reason := device.absent()):
        raise EnvironmentLacking(
            f"ncu cannot measure here: {reason}",
            "profile on a machine with a GPU, then view the report here: ncu-swizzle report FILE.ncu-rep",
        )
    return machine.find(request.ncu)


def baseline_profiles(baseline: str, request: Request) -> Sequence[Profile]:
    """Return the profiles of a baseline; none for "auto" and "none". Raises UsageError if it does not exist."""
    if baseline in ("", AUTO, NONE):
        return ()
    if not exists(Path(baseline)):
        raise UsageError(f"--baseline {baseline} does not exist", "give a run, a .ncu-rep or a saved profile")
    return saved_profiles(Path(baseline), ReplaySettings(EmulationSettings.of(request), jobs=request.jobs))


def _measure(program: UserProgram, context: Context) -> Sequence[Profile]:
    """Run the program under ncu; leave the report and the program's output in the folder."""
    file, request = context.folder / REPORT, context.request
    said: deque[str] = deque(maxlen=MOST_PIECES)
    try:
        notes = ncu.collect(
            machine.find(request.ncu),
            program.argv,
            file,
            request.options,
            request.timeout_s,
            on_progress=context.on_done(program.name),
            folder=program.folder,
            on_output=said.append,
        )
    except ProgramFailed as error:
        raise _explanation(error, program, "".join(said)) from None
    write_atomically(context.folder / LOG, own_lines("".join(said)).encode(errors="replace"))
    from ncu_swizzle.engines import reader
    from ncu_swizzle.frontends import python_kernels
    from ncu_swizzle.reports import container

    kernels = python_kernels.known_kernels(container.inspect(file).results, folder=program.folder)
    write_json(facts_path(file), python_kernels.as_facts(kernels))
    seal(file, notes)
    return reader.read(file)


def _explanation(error: ProgramFailed, program: UserProgram, said: str) -> NcuSwizzleError:
    """Return the error with the kernels that the program launched, or its last lines of output."""
    alone = f"run it without ncu first: {program}"
    hint = Hint(*(alone if part == ncu.WITHOUT_NCU else part for part in error.hint.parts))
    if isinstance(error, NothingProfiled):
        if kernels := listed_kernels(said):
            return NothingProfiled(
                f"{error}; {program.name} launches {bounds.some(kernels)}",
                "check the filters: -k, -s, -c, --nvtx-include, --kernel-name-base",
            )
        return NothingProfiled(
            f"{error} of {program.name}",
            "does it use the GPU? --profile-from-start, --target-processes and --nvtx-include select what to profile",
        )
    last_lines = bounds.last_lines(own_lines(said))
    more = f"; {program.name}'s last output:\n{last_lines}" if last_lines not in error.output else ""
    return type(error)(f"{error}{more}", hint)


def _limit_notes(launches: int, request: Request) -> list[str]:
    """Return a note if the default limit on launches was reached."""
    if launches < MOST_LAUNCHES or request.options.launch_count != MOST_LAUNCHES:
        return []
    return [
        f"Only the first {launches} launches were profiled; the program may have launched more. "
        "-c N profiles more, -k NAME and -s N select others."
    ]


@dataclass(frozen=True)
class LaunchesJob:
    """The chosen launches of a file, to be emulated into the folder of a run; its baseline can be such a file, too."""

    file: Path
    how: RunOptions

    def profile(self, progress: Progress = silent) -> JobResult:
        """Emulate the launches; one that cannot be emulated is named in a note.

        Raises UsageError, BadFile, DamagedFile, and the first launch's error if none can be emulated.
        """
        path, request, baseline, pairs = self.file, self.how.request, self.how.baseline, self.how.pairs
        if request.engine not in (AUTO, EMULATED):
            raise UsageError(f"{path} holds launches, which are emulated", "--engine emulated")
        name = slug(path.name.removesuffix(LAUNCHES))
        with replay.opened(path, ReplaySettings.of(request), progress) as launches:
            before = baseline_profiles(baseline, request)  # fails before anything slow starts
            run = _LaunchesRun(launches, progress)
            with run_folder.filled(name, self.how.destination, launches.depends_on(), len(launches.chosen)) as folder:
                try:
                    run.fill(folder)
                except (KeyboardInterrupt, SystemExit) as stop:
                    error = interruption(stop)
                    if error is None or not run.profiles:
                        raise
                    notes = [
                        *launches.manifest.notes,
                        f"The run was {error.word}: {run.missing}; the same command goes on.",
                    ]
                    run.laid_out(folder, _beside(before, run.chosen, pairs, (baseline, name), notes))
                    raise error(
                        f"the run was {error.word}: {len(run.profiles)} of {len(launches.chosen)} launches are saved "
                        f"in {folder}",
                        "the same command goes on with the others",
                    ) from stop
                columns = (baseline, str(path) if before else name)
                rows = _beside(before, run.chosen, pairs, columns, [*launches.manifest.notes, *run.failed])
                comparisons, said = run.laid_out(folder, rows)
                files = run_kernel.save_rows(folder, rows.rows, rows.columns, saved=True)
                run_folder.finish(folder, name, files, rows.columns, rows.rows)
        return JobResult(
            comparisons=comparisons, engine=EMULATED, folder=folder, notes=said, title=" → ".join(rows.columns)
        )


ALL = "all launches"


class _LaunchesRun:
    """The launches of a file on their way into a run's folder: the profiles of those that are there, by number."""

    def __init__(self, launches: ChosenLaunches, progress: Progress) -> None:
        self._launches, self._progress = launches, progress
        self.profiles: dict[int, Profile] = {}
        self._errors: dict[int, NcuSwizzleError] = {}

    def fill(self, folder: Path) -> None:
        """Emulate what is not in the folder yet; each is saved when it ends. Raises the first error if all fail."""
        saved = {file.name: file for file in folder.glob(run_folder.PIECES)}
        numbers = {launch.index: number for number, launch in enumerate(self._launches.chosen)}
        for name, file in sorted(saved.items()):
            with contextlib.suppress(NcuSwizzleError):  # what a crash of the machine left of it is made again
                self.profiles[numbers[int(name.partition("-")[0])]] = run_folder.load_profile(file)
        left = [number for number in range(len(self._launches.chosen)) if number not in self.profiles]
        self._tell(f"{len(self.profiles)} launches are in {folder} already" if self.profiles else "")
        for number, outcome in self._launches.replayed(partial(_saved, folder), left, self._prepare_page):
            if outcome.error:
                self._errors[number] = outcome.error
            else:
                self.profiles[number] = outcome.value
            self._tell(self._row(number))
        if not self.profiles:
            raise self._errors[min(self._errors)]

    def _prepare_page(self) -> bool:
        """Load what writes the page, or search for a mapping that it may show; return whether it did something."""
        from ncu_swizzle.render import page

        page.prepare({})
        return page.search_ahead(self.chosen)

    def _tell(self, row: str) -> None:
        done, total = len(self.profiles) + len(self._errors), len(self._launches.chosen)
        self._progress(ALL, Done(done / total, f"{done} of {total}", row))

    def _row(self, number: int) -> str:
        """Return the line that is shown as soon as a launch is done."""
        title = replay.title(self._launches.chosen[number])
        if error := self._errors.get(number):
            return f"{title}: unknown: {error}"
        total = self.profiles[number].total
        if total.excessive is None:
            return f"{title}: excessive wavefronts unknown"
        return f"{title}: {total.excessive:,} excessive wavefronts"

    @property
    def chosen(self) -> list[Profile]:
        """The profiles in the order of their launches."""
        return [profile for _, profile in sorted(self.profiles.items())]

    @property
    def failed(self) -> list[str]:
        """Notes on the launches that could not be emulated."""
        chosen = self._launches.chosen
        return [
            f"Launch {replay.title(chosen[number])} was not emulated: {error}; {error.hint}."
            for number, error in sorted(self._errors.items())
        ]

    @property
    def missing(self) -> str:
        """Which launches are not there."""
        chosen = self._launches.chosen
        titles = [replay.title(launch) for number, launch in enumerate(chosen) if number not in self.profiles]
        return f"{len(titles)} of {len(chosen)} launches are missing: {bounds.some(titles)}"

    def laid_out(self, folder: Path, run: RunRows) -> tuple[tuple[Comparison, ...], tuple[str, ...]]:
        """Write the page; return the comparisons in it, and its notes."""
        from ncu_swizzle.render import page
        from ncu_swizzle.reports import pairing

        comparisons, notes = pairing.lay_out(run.rows, run.columns, run.notes)
        jobs = pool.jobs_for(self._launches.settings.jobs)
        text = page.render_all(comparisons, notes, " → ".join(run.columns), jobs)
        write_atomically(folder / run_folder.REPORT, text.encode())
        return comparisons, notes


def _saved(folder: Path, emulated: Emulated) -> Profile:
    """Save a launch's profile and its cubin, and return the profile: kernels of one name may have several cubins."""
    profile = emulated.profile
    report = f"{slug(profile.kernel.name)}-{profile.report_sha256[:8]}.cubin"
    named = replace(emulated, profile=replace(profile, report=report))
    if not (folder / report).exists():
        emulation.save_cubin(named, folder)
    named.profile.save(folder / run_kernel.launch_file(named.profile))
    return named.profile
