"""The kernels that ``ncu-swizzle explain`` accepts, their tiles, and the worst access under two mappings."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ncu_swizzle.base import pool
from ncu_swizzle.base.errors import Hint, Typed, UsageError, as_word
from ncu_swizzle.base.files import exists, is_file, is_folder
from ncu_swizzle.cubin import elf
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.profiles import saved_profiles
from ncu_swizzle.engines.replay import ReplaySettings
from ncu_swizzle.engines.settings import Progress, silent
from ncu_swizzle.explain.query import ExplainQuery, KernelQuery
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import FILES, Target, is_kernel_file
from ncu_swizzle.kernels.naming import Named
from ncu_swizzle.kernels.options import RUN_MANIFEST
from ncu_swizzle.kernels.tiles import has_tiles
from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem import access as accesses
from ncu_swizzle.smem import bankmap, code
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankmap import BANKS, BankMap
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.observed import ObservedTile
from ncu_swizzle.smem.swizzle import Padding, Swizzle, Transform, on_elements, parse_swizzle

# Own kernels: emulated, or saved by an earlier run with their addresses.

SAVED = (".json", ".ncu-rep", ".launches")


def is_layout(what: str) -> bool:
    """Return whether a text is meant as a layout, not as a file or a kernel's name."""
    named = is_kernel_file(what) or Path(what).exists()
    return (":" in what or what.startswith("(")) and not named


def named(query: ExplainQuery, unlaunched: bool) -> Named:
    """Return what a text names: kernels, or something saved; files too of which no launch is described (`unlaunched`).

    Raises UnknownKernel, BadFile and UsageError.
    """
    path = Path(query.subject)
    is_build = unlaunched and not exists(path / RUN_MANIFEST) and is_folder(path) and elf.built_files_in(path)
    if is_saved(query.subject) and not is_build:
        return Named(saved=path)
    return naming.resolve([query.subject], query.kernel.description, unlaunched=unlaunched)[0]


def is_saved(what: str) -> bool:
    """Return whether a text names a report, a saved profile or a run's folder."""
    path = Path(what)
    return path.suffix in SAVED or (path.is_dir() and path.suffix not in FILES)


def is_declared(target: Target) -> bool:
    """Return whether the accesses of a target are declared, or it has no source to emulate."""
    return target.kernel.library or has_tiles(target)


def emulate_launch(target: Target, query: KernelQuery) -> Profile:
    """Return the profile of one emulated launch; raises whatever `emulate_target` raises."""
    settings = EmulationSettings.of(query.request, simulating=True)
    return emulation.emulate_target(target, settings, lambda done: query.progress(target.name, done)).profile


def examined(query: ExplainQuery, named: Named) -> tuple[Target | Profile, ...]:
    """Return each kernel that a text names: a target if its accesses are declared, else its emulated profile.

    Raises UsageError for a report without addresses, with the command that finds them.
    """
    if named.saved:
        return tuple(profiles_with_addresses(query))
    kernel = query.kernel
    quiet = replace(kernel, progress=silent)
    outcomes = pool.outcomes(_examined, quiet, named.targets, pool.jobs_for(kernel.request.jobs), kernel.progress)
    return tuple(outcome.result() for outcome in pool.in_order(outcomes))


def _examined(kernel: KernelQuery, target: Target, progress: Progress) -> Target | Profile:
    return target if is_declared(target) else emulate_launch(target, replace(kernel, progress=progress))


def profiles_with_addresses(query: ExplainQuery) -> Sequence[Profile]:
    """Return the profiles with known addresses in a report, a saved profile or a run; raise as `examined` does."""
    what, kernel = query.subject, query.kernel
    kernel.description.refuse_beside(what)
    settings = ReplaySettings.of(kernel.request)
    profiles = saved_profiles(Path(what), settings, kernel.progress)
    with_requests = [profile for profile in profiles if profile.requests]
    if not with_requests:
        if not profiles:
            raise UsageError(f"{what} has no kernels", "ncu-swizzle profile -- ./app")
        first = next((profile for profile in profiles if profile.accesses), None)
        if first is None:
            raise UsageError(f"{what}: no kernel accesses shared memory", "name a report with shared-memory accesses")
        raise UsageError(
            f"{what} has the counts of {first.kernel.name}, but no addresses: ncu does not record them",
            f"the emulator computes them: {_computing(first, query)}",
        )
    return with_requests


def _computing(profile: Profile, query: ExplainQuery) -> str:
    """Return a command line that emulates a profile's kernel, with everything the profile tells."""
    words = ["ncu-swizzle", "explain"]
    shown = ["--show", query.show] if query.show else []
    catalog = naming.catalogue(query.kernel.description.sources)
    if any((family.name, kernel.name) == (profile.kernel.family, profile.kernel.name) for family, kernel in catalog):
        problem = ",".join(f"{name}={size}" for name, size in profile.problem.items())
        return shlex.join([*words, profile.kernel.name, *(["--problem", problem] if problem else []), *shown])
    files = [file for access in profile.shared() for file, _ in access.stack[-1:]]
    source = next((file for file in files if file.endswith(".cu")), "my.cu")
    if not is_file(Path(source)):  # it was on another machine, where it was measured
        source = Path(source).name
    name = profile.kernel.mangled or profile.kernel.name
    sizes = {"--grid": profile.grid, "--block": profile.block}
    launch = [word for flag, size in sizes.items() if any(size) for word in (flag, ",".join(map(str, size)))]
    return shlex.join([*words, as_word(source), "--kernel", name, *launch, *shown])


def accesses_of(tile: Mapping, writes: Sequence[str], reads: Sequence[str], threads: int) -> tuple[Access, ...]:
    """Return the accesses to a layout that were typed, writes first. Raises UsageError."""
    typed = [(text, True) for text in writes] + [(text, False) for text in reads]
    return tuple(accesses.parse(text, tile.layout, tile.element_bytes, is_write, threads) for text, is_write in typed)


def tiles(profile: Profile) -> tuple[ObservedTile, ...]:
    """Return the tiles of a profile; raise UsageError if it makes no access to known addresses."""
    observed = attribution.tiles(profile)
    if not observed:
        name = profile.kernel.name
        why = "; ".join(notes_if_unknown(profile))
        raise UsageError(
            f"{name}: {why}" if why else f"{name} does not access shared memory",
            Hint(Typed(f"ncu-swizzle profile {name}"), " measures it on a GPU")
            if why
            else "name a kernel that uses shared memory",
        )
    return observed


def notes_if_unknown(profile: Profile) -> list[str]:
    """Return the profile's notes if an access has unknown wavefronts: the first of them say why."""
    lacking = any(one.access and one.wavefronts is None for one in profile.instructions)
    return [note.rstrip(".") for note in profile.notes] if lacking else []


def tiles_with_conflicts(profile: Profile, line: str = "") -> tuple[ObservedTile, ...]:
    """Return the tiles with conflicts, or all if none has any; only those of `line`, such as ``my.cu:12``, if given."""
    observed = tuple(tile for tile in tiles(profile) if any(is_at_line(access, line) for access in tile.accesses))
    if not observed:
        raise UsageError(f"{profile.kernel.name} does not access shared memory at {line}", _lines_of(profile))
    return tuple(tile for tile in observed if tile.excessive) or observed


def is_at_line(access: Access, line: str) -> bool:
    """Return whether an access is at this line, such as ``my.cu:12``; always true without one."""
    return not line or access.name.split()[-1:] == [line]


def _lines_of(profile: Profile) -> str:
    """Return a hint with the lines that have accesses."""
    return f"{', '.join(dict.fromkeys(site.name for site in attribution.sites(profile)))} do"


def transform(tile: ObservedTile, swizzle: str, pad: int, element_bytes: int | None) -> Transform | None:
    """Return the swizzle or padding that was typed, on the tile's elements; None if none was. Raises UsageError.

    Without `element_bytes` the numbers count the tile's own elements.
    """
    element = tile.plain.element_bytes
    if swizzle and pad:
        raise UsageError("a swizzle and padding together", "use only one of them")
    unit = element_bytes or element
    if pad:
        if pad * unit % element:
            raise UsageError(f"{pad * unit} bytes are not whole elements of {element} bytes", f"--elem {element}")
        return Padding(tile.plain.shape[1], pad * unit // element)
    if not swizzle:
        return None
    parsed = parse_swizzle(swizzle, unit, tile.plain.shape[1])
    return on_elements(parsed.on_bytes(unit), element) if isinstance(parsed, Swizzle) else parsed


# What is drawn for a kernel: its worst access, under two mappings.


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The mappings before and after (equal if nothing moves), and an access to both.

    `later` is the access after, if it is another kernel's.
    """

    before: Mapping
    after: Mapping
    access: Access | None
    title: str = ""
    later: Access | None = None

    @property
    def name(self) -> str:
        """The title, or the layout and its mapping."""
        return self.title or code.titled(self.after)

    @property
    def pairs(self) -> tuple[tuple[Mapping, Access | None], ...]:
        """Each mapping with its access, once if they are equal."""
        return tuple(dict.fromkeys(((self.before, self.access), (self.after, self.later or self.access))))

    def maps(self, banks: int = BANKS) -> tuple[BankMap, ...]:
        """Return the maps before and after, or one map if they are equal."""
        return tuple(bankmap.build(mapping, access, banks) for mapping, access in self.pairs)


def subject(query: ExplainQuery, profiles: Sequence[Profile]) -> Subject:
    """Return the worst access of one kernel under two mappings, or of two variants, as both have it. Raises UsageError.

    The second mapping is the one typed, else the one suggested.
    """
    first, last = profiles[0], profiles[-1]
    tile, access = _worst(first, query.access or query.line)
    name = f"{tile.span}: {access.name} ({access.op})"
    once = replace(access, times=1)
    if first is not last and not (query.swizzle or query.pad):
        other, later = _worst(last, query.access or access.name)
        title = f"{first.kernel.name} → {last.kernel.name}, {name}"
        return Subject(before=tile.plain, after=other.plain, access=once, title=title, later=replace(later, times=1))
    after = tile.plain
    if typed := transform(tile, query.swizzle, query.pad, query.element_bytes):
        after = replace(tile.plain, transform=typed)
    elif tile.excessive:
        after = tile.suggestion(attribution.constraints(first)).closest.mapping
    return Subject(before=tile.plain, after=after, access=once, title=f"{first.kernel.name}, {name}")


def _worst(profile: Profile, named: str) -> tuple[ObservedTile, Access]:
    """Return the access with the most excessive wavefronts, of those with this name or operation, and its tile."""
    drawn = [(tile, access) for tile in tiles(profile) for access in tile.accesses]
    chosen = [
        pair for pair in drawn if named in ("", pair[1].op) or is_at_line(pair[1], named) or pair[1].name == named
    ]
    if not chosen:
        names = ", ".join(dict.fromkeys(repr(access.name) for _, access in drawn))
        raise UsageError(f"{profile.kernel.name} has no access {named!r}", f"--access one of {names}")

    def excess(pair: tuple[ObservedTile, Access]) -> int:
        tile, access = pair
        counted = access.wavefronts(tile.plain)
        # Per request; requests with unknown wavefronts are not counted.
        return access.total(np.where(counted.known, counted.actual - counted.ideal, 0))

    return max(chosen, key=excess)
