"""Profile the launches of a launches file: each is emulated, and all of them become one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.build.build_option import LAUNCHES
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.context import Progress, Request, silent
from ncu_swizzle.engines.emulation import Emulated
from ncu_swizzle.errors import NcuSwizzleError, UsageError
from ncu_swizzle.files import slug, write_atomically
from ncu_swizzle.jobs import compare, profile_program, replays
from ncu_swizzle.jobs.companions import AUTO
from ncu_swizzle.jobs.replays import ChosenLaunches, ReplaySettings
from ncu_swizzle.profiles import run_folder
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.profiles.engine import EMULATED, Engine
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.profiles.pairing import Forced
from ncu_swizzle.profiles.result import JobResult


def profile(
    path: Path,
    request: Request,
    settings: ReplaySettings,
    baseline: str = AUTO,
    pairs: Sequence[Forced] = (),
    destination: Destination = Destination(),
    progress: Progress = silent,
) -> JobResult:
    """Emulate the chosen launches into the folder of a run, compared with a baseline: a run, report, file of launches.

    A launch that cannot be emulated is named in a note. Raises UsageError, BadFile, DamagedFile, and the first
    launch's error if none can be emulated.
    """
    if request.engine not in ("auto", EMULATED):
        raise UsageError(f"{path} holds launches, which are emulated", "--engine emulated")
    run_folder.refuse_to_overwrite(destination)
    name, engine = slug(path.name.removesuffix(LAUNCHES)), Engine(EMULATED)
    with run_folder.staging(destination.export or run_folder.DEFAULT / name) as staged:
        with replays.opened(path, settings, progress) as launches:
            after, failed = _emulated(launches, staged)
            notes = [*launches.manifest.notes, *failed]
        before = profile_program.baseline_profiles(baseline)
        from ncu_swizzle.profiles import many_launches
        from ncu_swizzle.render import page

        if before:
            rows, _ = compare.arrange([before, after], [], pairs)
            columns = many_launches.columns([baseline, str(path)])
        else:
            rows, columns = [(profile,) for profile in after], (name,)
        comparisons, shown = many_launches.lay_out(rows, columns, notes)
        files = profile_program.save_rows(staged, rows, columns)
        title = " → ".join(columns)
        write_atomically(staged / run_folder.REPORT, page.render_all(comparisons, shown, title).encode())
        run_folder.finish(staged, name, files, columns, rows)
        folder = run_folder.publish(staged, name, destination)
    return JobResult(comparisons, engine, folder, shown, title)


def _emulated(launches: ChosenLaunches, folder: Path) -> tuple[list[Profile], list[str]]:
    """Return the profiles of the launches, whose cubins are saved, and notes on those that cannot be emulated."""
    profiles: list[Profile] = []
    errors: list[tuple[str, NcuSwizzleError]] = []
    for launch in launches.chosen:
        try:
            profiles.append(_saved(launches.emulate(launch), folder))
        except UsageError:
            raise
        except NcuSwizzleError as error:
            errors.append((replays.title(launch), error))
    if not profiles:
        raise errors[0][1]
    return profiles, [f"Launch {title} was not emulated: {error}." for title, error in errors]


def _saved(emulated: Emulated, folder: Path) -> Profile:
    """Return the profile, whose report is its cubin: kernels of one name may have several."""
    profile = emulated.profile
    report = f"{slug(profile.kernel.name)}-{profile.report_sha256[:8]}.cubin"
    named = replace(emulated, profile=replace(profile, report=report))
    if not (folder / report).exists():
        emulation.save_cubin(named, folder)
    return named.profile
