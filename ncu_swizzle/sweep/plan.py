"""Which kernels are profiled at which problems: read from the command line and checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.catalog.family import Family, Kernel
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.errors import UsageError
from ncu_swizzle.files import slug
from ncu_swizzle.texts import in_words
from ncu_swizzle.validate import whole

ALL = "all"
MOST_POINTS = 20_000
FORM = "write NAME=SIZE,SIZE,…, for example --problem n=1024,2048,4096"


@dataclass(frozen=True)
class Point:
    """One kernel at one problem."""

    kernel: str
    problem: tuple[tuple[str, int], ...]  # all parameters, in the family's order

    @property
    def sizes(self) -> dict[str, int]:
        return dict(self.problem)

    @property
    def folder(self) -> str:
        """Its path in the sweep's folder, such as ``gemm-plain/n1024``."""
        return f"{slug(self.kernel)}/{'-'.join(f'{name}{size}' for name, size in self.problem)}"

    def __str__(self) -> str:
        return f"{self.kernel} {in_words(self.sizes)}"


@dataclass(frozen=True)
class Plan:
    """The points of a sweep, problem by problem; within each, the kernels in the catalogue's order."""

    family: Family
    kernels: tuple[Kernel, ...]
    problems: tuple[dict[str, int], ...]

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(Point(kernel.name, tuple(problem.items())) for problem in self.problems for kernel in self.kernels)

    def alone(self) -> Plan:
        """Return the plan without its points, of which a worker gets one after the other."""
        return replace(self, problems=self.problems[:1])

    def target(self, point: Point) -> Target:
        """Return the target that a point profiles."""
        kernel = next(kernel for kernel in self.kernels if kernel.name == point.kernel)
        return Target(self.family, kernel, point.sizes)

    @property
    def varied(self) -> tuple[str, ...]:
        """The parameters with several sizes, the one with the most first: it becomes the charts' axis."""
        sizes = {name: {problem[name] for problem in self.problems} for name in self.problems[0]}
        return tuple(sorted((name for name in sizes if len(sizes[name]) > 1), key=lambda name: -len(sizes[name])))

    def baselines(self) -> dict[str, str]:
        """Return what each kernel is compared with: the last swept kernel in its chain of baselines, else itself.

        A library kernel has no baseline; it is compared with the first kernel of the sweep.
        """
        swept = {kernel.name: kernel for kernel in self.kernels}
        baselines = {}
        for kernel in self.kernels:
            before = self.kernels[0] if kernel.library else kernel
            seen = {before.name}
            while before.baseline in swept and before.baseline not in seen:
                before = swept[before.baseline]
                seen.add(before.name)
            baselines[kernel.name] = before.name
        return baselines


def make_plan(
    catalog: Catalog, names: Sequence[str], variants: Sequence[str], sizes: Mapping[str, Sequence[int]]
) -> Plan:
    """Return the plan for a family or kernels; raise UnknownKernel, BadProblem, or UsageError for too many points."""
    family, kernels = _kernels(catalog, names, variants)
    combinations = product(*(dict.fromkeys(values) for values in sizes.values()))
    problems = [family.problem(dict(zip(sizes, values, strict=True))) for values in combinations]
    points = len(problems) * len(kernels)
    if points > MOST_POINTS:
        raise UsageError(f"that would be {points:,} points; the maximum is {MOST_POINTS:,}", "name fewer sizes")
    return Plan(family, tuple(kernels), tuple(problems))


def _kernels(catalog: Catalog, names: Sequence[str], variants: Sequence[str]) -> tuple[Family, list[Kernel]]:
    families = {family.name: family for family in catalog.families}
    family = families.get(names[0]) if len(names) == 1 else None
    if family is None:
        if [name for name in variants if name != ALL]:
            raise UsageError("--variants selects from one family", "ncu-swizzle sweep FAMILY --variants NAME,NAME")
        return catalog.find_together(list(dict.fromkeys(names)))
    own = [kernel for kernel in family.kernels if not kernel.library]
    if not variants or ALL in variants:
        return family, own
    return family, [_variant(family, name) for name in dict.fromkeys(variants)]


def _variant(family: Family, name: str) -> Kernel:
    """Return a variant by its name, with or without the family's name as a prefix."""
    for kernel in family.kernels:
        if name in (kernel.name, kernel.name.removeprefix(f"{family.name}-")):
            return kernel
    names = ", ".join(kernel.name for kernel in family.kernels)
    raise UsageError(f"the family {family.name} has no variant {name!r}", f"its variants: {names}")


def sizes(texts: Iterable[str]) -> dict[str, list[int]]:
    """Parse ``n=1024,2048``, possibly repeated, into sizes by name; raise UsageError."""
    values: dict[str, list[int]] = {}
    for text in texts:
        name = ""  # each option starts with a name
        for part in listed([text]):
            given, equals, value = part.rpartition("=")
            name = given.strip() if equals else name
            if not name or not value.strip().isdecimal():
                raise UsageError(f"--problem: {part!r} is neither NAME=SIZE nor a further size", FORM)
            try:
                values.setdefault(name, []).append(whole(value))
            except ValueError as error:
                raise UsageError(f"--problem: {part!r}: {error}", FORM) from error
    return values


def listed(texts: Iterable[str]) -> list[str]:
    """Return the items of comma-separated or repeated texts."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]
