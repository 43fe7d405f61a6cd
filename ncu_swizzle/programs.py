"""Any program under ncu: its kernels, one profile each, in one run's folder."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle import child, experiment, failures, gpu, launchfacts, names, ncu, runfolder
from ncu_swizzle.catalog import Catalog
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, NothingProfiled, ProgramFailed, UsageError
from ncu_swizzle.experiment import AUTO, NONE, Progress, Result
from ncu_swizzle.files import slug, write_atomically, write_json
from ncu_swizzle.ncu import Launches
from ncu_swizzle.pairing import Forced, Row
from ncu_swizzle.profile import Profile
from ncu_swizzle.profiling import Engine, Request

MOST_LAUNCHES = 32  # are profiled where nobody says how many: a training loop has thousands
DEFAULTS = Launches(target_processes="all", profile_from_start="on", import_source="yes")
REPORT, LOG = "report.ncu-rep", "program.log"

_NCU_SAYS = re.compile(r"^==(PROF|WARNING|ERROR|INFO)==.*(\n|$)", re.MULTILINE)
_AVAILABLE = re.compile(r"^Available Kernels:\s*\n((?:\s*\d+\. .*(?:\n|$))+)", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """What to run: the words of its command line, and the folder that it runs in."""

    argv: tuple[str, ...]
    folder: Path

    @property
    def name(self) -> str:
        return names.program(self.argv)

    def __str__(self) -> str:
        return shlex.join(self.argv)


def profile(
    catalog: Catalog,
    program: Program,
    request: Request,
    baseline: str = AUTO,
    pairs: Sequence[Forced] = (),
    export: Path | None = None,
    overwrite: bool = False,
    on_progress: Progress = lambda kernel, percent: None,
) -> Result:
    """Profile a program's kernels into a run's folder, beside those of `baseline`: a run, a report or a saved profile.

    The program runs in its own folder with its own environment; what it prints is kept. Raises UsageError,
    EnvironmentLacking, and ProgramFailed with the last that it said.
    """
    program_s = replace(DEFAULTS, **request.options.launches.set)
    request = replace(request, ncu=_ready(program, request), options=replace(request.options, launches=program_s))
    runfolder.refuse_to_overwrite(export, overwrite)
    name = slug(program.name)
    engine = Engine("ncu")
    with experiment.meanwhile(dict), runfolder.staging(export or runfolder.DEFAULT / name) as staged:
        reports = [*_baseline(catalog, baseline, request, engine, staged, on_progress)]
        reports.append(_measure(program, request, staged, lambda percent: on_progress(program.name, percent)))
        from ncu_swizzle import page, several  # loaded while ncu measures

        if len(reports) > 1:
            rows, _ = experiment.arrange(reports, [], pairs)
            columns = several.columns([baseline, name])
        else:
            rows, columns = [(one,) for one in reports[0]], (name,)
        comparisons, notes = several.lay_out(rows, columns, _limited(len(reports[-1]), request))
        files = _save(staged, rows, columns)
        title = " → ".join(columns)
        write_atomically(staged / experiment.REPORT, page.render_all(comparisons, notes, title).encode())
        runfolder.finish(staged, name, files, columns, rows)
        folder = runfolder.publish(staged, name, export, overwrite)
    return Result(comparisons, engine, folder, notes, title)


def _ready(program: Program, request: Request) -> Path:
    """Return the ncu to use; raise where something is missing, before anything takes long."""
    if request.engine == "recorded":
        raise UsageError("a program of yours was not recorded", "ncu-swizzle report FILE.ncu-rep shows what you have")
    if not program.argv:
        raise UsageError("no program follows --", "ncu-swizzle profile -- ./app --size 4096")
    first = program.argv[0]
    found = program.folder / first if "/" in first else shutil.which(first)
    if found is None or not shutil.which(found):
        raise UsageError(f"{first} is no program that can be run", f"try it: {program}")
    if request.engine == "auto" and (reason := gpu.absent()):
        raise EnvironmentLacking(
            f"nothing can be measured here: {reason}",
            "profile it where there is a GPU, and look at the report here: ncu-swizzle report FILE.ncu-rep",
        )
    return ncu.find(request.ncu)


def _baseline(
    catalog: Catalog, asked: str, request: Request, engine: Engine, staged: Path, on_progress: Progress
) -> Sequence[Sequence[Profile]]:
    if asked in ("", AUTO, NONE):
        return []
    if not Path(asked).exists():
        raise UsageError(
            f"--baseline {asked} does not exist", "a program's baseline is a run, a .ncu-rep or a saved profile"
        )
    return [experiment.resolve(catalog, asked, request, engine, staged, on_progress)]


def _measure(
    program: Program, request: Request, staged: Path, on_progress: Callable[[float], None]
) -> Sequence[Profile]:
    """Run the program under ncu; leave its report and what it printed in the folder."""
    file = staged / REPORT
    said: list[str] = []
    try:
        notes = ncu.collect(
            ncu.find(request.ncu),
            program.argv,
            file,
            request.options,
            request.timeout_s,
            on_progress=on_progress,
            folder=program.folder,
            on_output=said.append,
        )
    except ProgramFailed as error:
        raise _explained(error, program, "".join(said)) from None
    write_atomically(staged / LOG, own_words("".join(said)).encode())
    write_json(launchfacts.facts_path(file), {})
    launchfacts.seal(file, notes)
    from ncu_swizzle import repfile

    return repfile.read(file)


def own_words(log: str) -> str:
    """Return what the program printed, without the lines of ncu's that stand among it."""
    return _NCU_SAYS.sub("", log)


def _explained(error: ProgramFailed, program: Program, log: str) -> NcuSwizzleError:
    """Return the error with what the program launched, or said last."""
    hint = error.hint.replace(failures.WITHOUT_NCU, f"run it without ncu first: {program}")
    if isinstance(error, NothingProfiled):
        launched = [line.split(". ", 1)[-1].strip() for found in _AVAILABLE.findall(log) for line in found.splitlines()]
        if launched:
            return NothingProfiled(
                f"{error}; {program.name} launches {', '.join(launched)}",
                "look at the filters: -k, -s, -c, --nvtx-include, --kernel-name-base",
            )
        return NothingProfiled(
            f"{error} of {program.name}",
            "does it use the GPU? --profile-from-start, --target-processes and --nvtx-include say where ncu looks",
        )
    said = child.last_lines(own_words(log))
    more = f"; the last that {program.name} printed:\n{said}" if said and said not in str(error) else ""
    return type(error)(f"{error}{more}", hint)


def _limited(launches: int, request: Request) -> list[str]:
    """Return what to say where the limit that nobody asked for was reached."""
    if launches < MOST_LAUNCHES or request.options.launch_count != MOST_LAUNCHES:
        return []
    return [
        f"Only the first {launches} launches were profiled; the program may have launched more. "
        "-c N profiles more, -k NAME and -s N others."
    ]


def _save(staged: Path, rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Save every launch under its number and name, those of a baseline under its name too."""
    files = []
    for row in rows:
        for column, one in zip(columns, row, strict=True):
            if one is not None:
                of = f"{slug(column)}." if column != columns[-1] else ""
                kernel = names.function(one.kernel.function) or one.kernel.name
                files.append(f"{of}{one.launch.index:03d}-{slug(kernel)}.json")
                one.save(staged / files[-1])
    return files
