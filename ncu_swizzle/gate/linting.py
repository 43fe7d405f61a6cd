"""What ``ncu-swizzle lint`` does: emulate every kernel that it is given and judge every line that conflicts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.build.toolchain import INSTALL
from ncu_swizzle.catalog import collection, user_kernels
from ncu_swizzle.catalog import family as family_
from ncu_swizzle.catalog.family import Family, Kernel
from ncu_swizzle.catalog.kernel_options import KernelDescription
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.emulate import advice
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.context import Progress, silent
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.errors import BadFile, EnvironmentLacking, NcuSwizzleError, UnknownKernel
from ncu_swizzle.gate import places, policy
from ncu_swizzle.gate.policy import EACH, Policy, Rule
from ncu_swizzle.gate.verdict import MAX_DEGREE, Check, Outcome, Place, Verdict
from ncu_swizzle.profiles import attribution
from ncu_swizzle.profiles.counts import Instruction
from ncu_swizzle.profiles.model import Profile

DESCRIPTION = "family.toml"
PROJECTS = ("ncu-swizzle.toml", "pyproject.toml")
SUGGEST = "ncu-swizzle suggest tries layouts of your own and prints their code"


@dataclass(frozen=True)
class Asked:
    """The command line of ``ncu-swizzle lint``: files, and how a .cu, cubin or PTX file is launched."""

    files: tuple[str, ...]
    max_degree: tuple[str, ...] = ()
    description: KernelDescription = KernelDescription()
    catalogs: tuple[Path, ...] = ()
    config: str = ""


@dataclass(frozen=True)
class Skipped:
    """A source whose launch is described nowhere."""

    name: str
    reason: str


Variant = tuple[Family, Kernel]


def lint(asked: Asked, settings: EmulationSettings, on_progress: Progress = silent) -> Verdict:
    """Return a check for each line that conflicts, or one for each kernel that has no such line.

    Raises EnvironmentLacking without a compiler, BadFile and UsageError for what cannot be linted at all.
    """
    if missing := settings.toolchain.lacking():
        raise EnvironmentLacking(f"nothing can be compiled here: {missing}", INSTALL)
    rules = _policy(asked.max_degree)
    checks: list[Check] = []
    notes: list[str] = []
    lintable = [variant for file in asked.files for variant in variants(file, asked)]
    for variant in {_identity(one): one for one in lintable}.values():  # each once
        if isinstance(variant, Skipped):
            notes.append(f"{variant.name} was not run: {variant.reason}.")
            continue
        judged, said = _kernel(variant, asked, settings, rules, on_progress)
        checks += judged
        notes += said
    return Verdict(tuple(checks), tuple(dict.fromkeys(notes)))


def _identity(variant: Variant | Skipped) -> tuple[Path | None, str]:
    return (None, variant.name) if isinstance(variant, Skipped) else (variant[0].folder, variant[1].name)


def _policy(typed: Sequence[str]) -> Policy:
    """Return the limits: degree 1 of every line, and what the command line says over that."""
    rules = [policy.parse(MAX_DEGREE, text) for text in typed]
    policy.check_accesses(rules, ())
    each = [replace(rule, access=rule.access or EACH) for rule in rules]
    return Policy((Rule(MAX_DEGREE, 1, access=EACH), *each))


# ---------------------------------------------------------------------------------------------- what is linted


def variants(file: str, asked: Asked) -> Iterator[Variant | Skipped]:
    """Yield the kernels that a file stands for: a source, a binary, a family, a catalogue, a project, or a name."""
    path = Path(file)
    if path.suffix in family_.FILES:
        yield from _of_source(path, asked)
    elif path.is_dir() or path.name == DESCRIPTION:
        yield from _of_folder(path if path.is_dir() else path.parent)
    elif path.name in PROJECTS and path.is_file():
        known = user_kernels.everything((), str(path))
        yield from _with_source((family, kernel) for family, kernel in known if not family.shipped)
    else:
        yield user_kernels.everything(asked.catalogs, asked.config).find(file)


def _with_source(variants: Iterable[Variant]) -> Iterator[Variant]:
    """Leave out the libraries' kernels, whose source is not here."""
    return (variant for variant in variants if not variant[1].library)


def _of_folder(folder: Path) -> Iterator[Variant]:
    if (folder / DESCRIPTION).is_file():
        beside = collection.load(folder.resolve().parent)
        yield from _with_source((family, kernel) for family, kernel in beside if family.folder == folder.resolve())
    else:
        yield from _with_source(collection.load(folder))


def _of_source(file: Path, asked: Asked) -> Iterator[Variant | Skipped]:
    """Yield the kernels that the project or a family beside the file describes, else what the command line says."""
    if not file.is_file():
        raise BadFile(f"{file} does not exist", "name a .cu, a cubin, a PTX file or the folder of a family.toml")
    described = list(_described(file, asked))
    if described and not asked.description.typed:
        yield from described
        return
    try:
        known, names = user_kernels.chosen(str(file), asked.description, asked.catalogs, asked.config)
    except (UnknownKernel, BadFile):
        raise
    except NcuSwizzleError as error:
        if asked.description.typed:
            raise
        yield Skipped(str(file), f"{error}; {error.hint}" if error.hint else str(error))
        return
    yield from map(known.find, names)


def _described(file: Path, asked: Asked) -> Iterator[Variant]:
    family_folder = file.resolve().parent
    beside = list(_of_folder(family_folder)) if (family_folder / DESCRIPTION).is_file() else []
    project = list(_with_source(user_kernels.everything(asked.catalogs, asked.config, file.resolve().parent)))
    seen = set()
    for family, kernel in (*beside, *project):
        same = os.path.realpath(family.source(kernel)) == os.path.realpath(file)
        if same and kernel.name not in seen:
            seen.add(kernel.name)
            yield family, kernel


# ---------------------------------------------------------------------------------------------- judged


def _kernel(
    variant: Variant, asked: Asked, settings: EmulationSettings, rules: Policy, on_progress: Progress
) -> tuple[list[Check], list[str]]:
    family, kernel = variant
    sizes = {one.name for one in family.parameters}
    wanted = {name: size for name, size in asked.description.problem.items() if name in sizes}
    try:
        target = Target(family, kernel, family.problem(wanted))
        made = emulation.emulate_target(target, settings, lambda percent: on_progress(kernel.name, percent))
    except EnvironmentLacking as error:
        return [], [f"{kernel.name} was not run: {error} ({error.hint})."]
    except NcuSwizzleError as error:
        place = _in_checkout(Place(str(family.source(kernel))))
        return [Check(Outcome.inconclusive, kernel.name, MAX_DEGREE, str(error), "", place, hint=error.hint)], []
    return list(judge(made, rules)), [note for note in made.profile.notes if "unknown" not in note]


@dataclass(frozen=True)
class Site:
    """A line's accesses of one kind together."""

    access: str
    place: Location | None
    instructions: tuple[Instruction, ...]

    @property
    def unknown(self) -> bool:
        return any(one.wavefronts is None or one.ideal is None for one in self.instructions)

    @property
    def wavefronts(self) -> int:
        return sum(one.wavefronts or 0 for one in self.instructions)

    @property
    def ideal(self) -> int:
        return sum(one.ideal or 0 for one in self.instructions)


def sites(profile: Profile) -> list[Site]:
    """Return the accesses to shared memory by kind and by the line that is to blame."""
    found: dict[tuple[str, Location | None], list[Instruction]] = {}
    located = {id(one): place for one, place in attribution.sites(profile)}
    for one in profile.shared():
        found.setdefault((one.access, located.get(id(one))), []).append(one)
    return [Site(access, place, tuple(group)) for (access, place), group in found.items()]


def judge(made: Emulated, rules: Policy) -> Iterator[Check]:
    """Yield a failed check per line over its limit, an inconclusive one per unknown line, else one that passed."""
    profile = made.profile
    names = (profile.kernel.name, profile.kernel.function)
    every = sites(profile)
    limits = rules.limits(names, dict.fromkeys(site.access for site in every))
    advised = {offset: one.text for one in advice.advise(made.counts) for offset in one.offsets}
    told = False
    for site in sorted(every, key=lambda site: site.ideal - site.wavefronts):
        check = _site(profile, site, limits[MAX_DEGREE, site.access], advised)
        if check is not None:
            told = True
            yield check
    if not told:
        accesses = sum(len(site.instructions) for site in every)
        said = (
            f"{accesses} accesses to shared memory, none over its limit" if accesses else "no access to shared memory"
        )
        yield Check(Outcome.passed, profile.kernel.name, MAX_DEGREE, said)


def _site(profile: Profile, site: Site, rule: Rule, advised: dict[int, str]) -> Check | None:
    place = _in_checkout(Place(*site.place) if site.place else Place(next(iter(profile.sources), profile.report)))
    name = profile.kernel.name
    if site.unknown:
        why = next((note for note in profile.notes if "unknown" in note), "").rstrip(".")
        said = f"wavefronts of {len(site.instructions)} accesses are unknown{f': {why}' if why else ''}"
        return Check(Outcome.inconclusive, name, MAX_DEGREE, said, site.access, place, rule.origin, limit=rule.limit)
    degree = site.wavefronts / site.ideal if site.ideal else 1.0 if not site.wavefronts else float("inf")
    if degree <= rule.limit:
        return None
    way = next((advised[one.pc] for one in site.instructions if one.pc in advised), "")
    said = (
        f"degree {degree:.4g}, at most {rule.limit:.12g} allowed: {site.wavefronts - site.ideal:,} excessive wavefronts"
    )
    said += f"; {way}" if way else ""
    return Check(
        Outcome.failed,
        name,
        MAX_DEGREE,
        said,
        site.access,
        place,
        rule.origin,
        SUGGEST,
        actual=degree,
        limit=rule.limit,
    )


def _in_checkout(place: Place) -> Place:
    return replace(place, file=places.in_checkout(place.file, Path.cwd()))
