"""Own kernels for `banks`, `predict` and `suggest`: emulated, or saved by an earlier run with their addresses."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.catalog import kernel_files, user_kernels
from ncu_swizzle.catalog.family import FILES
from ncu_swizzle.catalog.kernel_options import CatalogOptions, KernelDescription
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.emulate.observed import ObservedTile
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.context import Progress, Request, silent
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.errors import UsageError
from ncu_swizzle.jobs.entries import saved_profiles
from ncu_swizzle.jobs.replays import ReplaySettings
from ncu_swizzle.profiles import tiles_seen
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.smem.swizzle import Padding, Swizzle, Transform, on_elements, parse_swizzle
from ncu_swizzle.tiles import lookup

SAVED = (".json", ".ncu-rep", ".launches")


@dataclass(frozen=True)
class KernelQuery:
    """How a kernel is found, described, compiled and emulated."""

    request: Request = Request()
    description: KernelDescription = KernelDescription()
    sources: CatalogOptions = CatalogOptions()
    progress: Progress = silent


def is_layout(what: str) -> bool:
    """Return whether a text is meant as a layout, not as a file or a kernel's name."""
    named = kernel_files.is_kernel_file(what) or Path(what).exists()
    return (":" in what or what.startswith("(")) and not named


def refuse_description(what: str, query: KernelQuery) -> None:
    """Raise UsageError if options that describe a kernel are given for something else."""
    user_kernels.refuse_description(query.description, what)


def targets(what: str, query: KernelQuery) -> tuple[Target, ...]:
    """Return the kernel with this name, or every variant of a file's; raise UnknownKernel, BadFile or UsageError."""
    sources = query.sources
    catalog, names = user_kernels.chosen(what, query.description, sources.catalog, sources.config, sources.trust)
    return tuple(catalog.target(name, query.request.problem) for name in names)


def is_saved(what: str) -> bool:
    """Return whether a text names a report, a saved profile or a run's folder."""
    path = Path(what)
    return path.suffix in SAVED or (path.is_dir() and path.suffix not in FILES)


def is_declared(target: Target) -> bool:
    """Return whether the accesses of a target are declared, or it has no source to emulate."""
    return target.kernel.library or lookup.has_tiles(target)


def emulated(target: Target, query: KernelQuery) -> Profile:
    """Return the profile of one emulated launch; raises whatever `emulate_target` raises."""
    settings = EmulationSettings.of(query.request)
    return emulation.emulate_target(target, settings, lambda percent: query.progress(target.name, percent)).profile


def observed(what: str, query: KernelQuery, command: str) -> Sequence[Profile]:
    """Return the profiles with known addresses that a kernel, a file or a run stands for.

    Raises UsageError if there are none, with the `command` that finds the addresses.
    """
    if not is_saved(what):
        return [emulated(target, query) for target in targets(what, query)]
    refuse_description(what, query)
    settings = ReplaySettings(EmulationSettings.of(query.request))
    profiles = saved_profiles(Path(what), settings, query.progress)
    known = [profile for profile in profiles if profile.requests]
    if not known:
        raise _unseen(what, profiles, command, query)
    return known


def _unseen(what: str, profiles: Sequence[Profile], command: str, query: KernelQuery) -> UsageError:
    """Return the error for a report without addresses, with a command that computes those of its first kernel."""
    if not profiles:
        return UsageError(f"{what} has no kernels", "ncu-swizzle profile -- ./app")
    if not any(profile.accesses for profile in profiles):
        return UsageError(f"{what}: no kernel accesses shared memory", "name a report with shared-memory accesses")
    profile = next((profile for profile in profiles if profile.accesses), profiles[0])
    return UsageError(
        f"{what} has the counts of {profile.kernel.name}, but no addresses: ncu does not record them",
        f"the emulator computes them: {_computing(profile, command, query)}",
    )


def _computing(profile: Profile, command: str, query: KernelQuery) -> str:
    """Return a command line that emulates a profile's kernel, as far as the profile describes it."""
    words = ["ncu-swizzle", command]
    sources = query.sources
    catalog = user_kernels.everything(sources.catalog, sources.config, trust=sources.trust)
    if any((family.name, kernel.name) == (profile.kernel.family, profile.kernel.name) for family, kernel in catalog):
        problem = ",".join(f"{name}={size}" for name, size in profile.problem.items())
        return shlex.join([*words, profile.kernel.name, *(["--problem", problem] if problem else [])])
    files = [file for access in profile.shared() for file, _ in access.stack[-1:]]
    source = next((file for file in files if file.endswith(".cu")), "my.cu")
    name = profile.kernel.mangled or profile.kernel.name
    sizes = {"--grid": profile.grid, "--block": profile.block}
    launch = [word for flag, size in sizes.items() if any(size) for word in (flag, ",".join(map(str, size)))]
    return shlex.join([*words, source, "--kernel", name, *launch])


def tiles(profile: Profile) -> tuple[ObservedTile, ...]:
    """Return the tiles of a profile; raise UsageError if it makes no access to known addresses."""
    seen = tiles_seen.tiles(profile)
    if not seen:
        name = profile.kernel.name
        why = "; ".join(unknown(profile))
        raise UsageError(
            f"{name}: {why}" if why else f"{name} does not access shared memory",
            f"ncu-swizzle profile {name} measures it on a GPU" if why else "name a kernel that uses shared memory",
        )
    return seen


def unknown(profile: Profile) -> list[str]:
    """Return what the profile says about accesses whose addresses could not be computed."""
    return [note.rstrip(".") for note in profile.notes if "unknown wavefronts" in note]


def conflicting(profile: Profile) -> tuple[ObservedTile, ...]:
    """Return the tiles with conflicts, or all of them if none has any."""
    seen = tiles(profile)
    return tuple(tile for tile in seen if tile.excessive) or seen


def transform(tile: ObservedTile, swizzle: str | None, pad: int, element_bytes: int | None) -> Transform | None:
    """Return the swizzle or padding that was typed, on the tile's elements; None if none was. Raises UsageError.

    Without `element_bytes` the numbers count the tile's own elements.
    """
    own = tile.plain.element_bytes
    if swizzle and pad:
        raise UsageError("a swizzle and padding together", "use only one of them")
    unit = element_bytes or own
    if pad:
        if pad * unit % own:
            raise UsageError(f"{pad * unit} bytes are not whole elements of {own} bytes", f"--elem {own}")
        return Padding(tile.plain.shape[1], pad * unit // own)
    if not swizzle:
        return None
    parsed = parse_swizzle(swizzle, unit, tile.plain.shape[1])
    return on_elements(parsed.on_bytes(unit), own) if isinstance(parsed, Swizzle) else parsed
