"""Judge a changed kernel without a GPU: whether it does the same work as the one before, on inputs that it cannot know.

Both versions are executed at several sizes. Sizes and inputs follow from both cubins, so that the same two kernels get
the same verdict, and none can be written for what it gets.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, TimeLimit, UsageError
from ncu_swizzle.emulate.blocks import numbered
from ncu_swizzle.emulate.faults import Circling, MemoryFault, Stuck
from ncu_swizzle.engines import executed
from ncu_swizzle.engines.emulated_launch import ALIGNMENT
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings, emulate_cubin
from ncu_swizzle.engines.executed import ExecutedTarget, ReadyTarget
from ncu_swizzle.kernels import fills
from ncu_swizzle.kernels.family import Argument, Parameter, Target
from ncu_swizzle.reports.model import Profile, violations

CASES, RACES_AT = 4, 2  # and the one whose launch is searched for races, too
DRAWS = 20  # of sizes, until one has a block
ELEMENTWISE = 8  # an element may be off by so many times the tolerance, relative to itself or to its row: that by once
MOST_APART = 1 << 13  # steps of ALIGNMENT by which the second version's buffers are moved
SAME_STORED = (codes.SAME_VALUE, codes.GLOBAL_SAME)  # races of equal stores: that they are shows in the outputs
LOUD = 100.0  # what random numbers of the second case are multiplied by
HUGE, APART = 2.0**40, 31  # and of the fourth, each so many-th, if it has 32 bits or more


class Judged(StrEnum):
    """The verdict."""

    SAME = "same"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One launch of both versions on the same inputs."""

    problem: Mapping[str, int]
    seed: int
    elements: int  # of outputs that were compared
    error: float  # the largest difference of an element, relative to itself or to its row


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What a launch of each version takes: before, after; None if unknown."""

    wavefronts: tuple[int | None, int | None] = (None, None)
    sectors: tuple[int | None, int | None] = (None, None)
    cycles: tuple[int | None, int | None] = (None, None)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Whether the second version may take the place of the first, and why not."""

    before: str
    after: str
    outcome: Judged
    reasons: tuple[str, ...] = ()
    cases: tuple[ComparedRun, ...] = ()
    costs: Costs = field(default_factory=Costs)
    inexact: tuple[str, ...] = ()  # instructions that reach outputs and are not bit-exact

    def lines(self) -> Iterator[str]:
        """Yield what to print."""
        for case in self.cases:
            at = ", ".join(f"{name}={size}" for name, size in case.problem.items()) or "the described size"
            yield f"{at}: {case.elements:,} elements, largest difference {case.error:.2g} (seed {case.seed})"
        for name, (before, after) in asdict(self.costs).items():
            if before is not None and after is not None:
                yield f"{name}: {before:,} → {after:,}"
        if self.inexact:
            yield f"not bit-exact: {', '.join(self.inexact)}"
        yield f"{self.after}: {self.outcome}" + "".join(f", {reason}" for reason in self.reasons)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


class _Refused(Exception):
    """The second version does not do what the first does."""


class _Unclear(Exception):
    """It cannot be told."""


def judge(before: Target, after: Target, settings: EmulationSettings) -> Judgement:
    """Return whether `after` does the same as `before`.

    Raises UsageError for kernels with other buffers or without outputs, and what compiling raises.
    """
    outputs = _refuse_unlike(before, after)
    versions = [executed.compiled(version, settings) for version in (before, after)]
    rng = np.random.default_rng(list(hashlib.sha256(b"".join(each.binary.cubin.data for each in versions)).digest()))
    seeds = rng.integers(1 << 32, size=CASES)
    done: list[ComparedRun] = []
    inexact: dict[str, None] = {}
    distinct: dict[str, set[bytes]] = {name: set() for name in outputs}
    outcome, reasons, costs = Judged.SAME, "", Costs()
    try:
        for number, (sizes, seed) in enumerate(zip(_sizes(before, rng), seeds.tolist(), strict=True)):
            old, inputs, first = _reference(versions[0], sizes, (seed, number), settings)
            new = versions[1].resized(versions[1].target.sized(old.target.problem), settings)
            # Results may depend neither on where buffers lie, each bit of addresses takes both values in the first two,
            # nor on the order of blocks, or of lanes that change one word atomically.
            moved = int(seeds[0]) ^ (MOST_APART - 1) * (number == 1) ^ seed * (number > 1)
            x, y, z = (*new.target.launch.grid, 1, 1)[:3]
            how = executed.Manner(apart=moved % MOST_APART * ALIGNMENT, backwards=number % 2 == 1)
            if number:
                how = replace(how, blocks=rng.permutation(numbered((x, y, z))), timeout_s=executed.CHECK_S / 4)
            second = _attempt(new, inputs, how)
            done.append(_compare(first, second, outputs, seed))
            if number == 0:  # what a kernel keeps in variables of its own shows when it is launched on something else
                _compare_again(first, second, _drawn(old.target, seed + 1, number), outputs, seed + 1)
            for name in outputs:
                distinct[name].add(first.array(_argument(first.target, name)).tobytes()[:4096])
                inexact |= dict.fromkeys(second.execution.reasons(second.where(_argument(second.target, name))))
            if number == RACES_AT:
                _judge_launches(old, new, settings)
        if all(len(each) == 1 for each in distinct.values()):
            raise _Unclear(f"no output of {before.name} depends on its inputs: there is no work to compare")
        costs = _judge_launches(versions[0], versions[1], settings)
    except (_Refused, _Unclear) as error:
        outcome, reasons = Judged.REFUSED if isinstance(error, _Refused) else Judged.UNKNOWN, str(error)
    return Judgement(
        before=before.name,
        after=after.name,
        outcome=outcome,
        reasons=(reasons,) if reasons else (),
        cases=tuple(done),
        costs=costs,
        inexact=tuple(inexact),
    )


def _argument(target: Target, name: str) -> Argument:
    return next(each for each in target.family.arguments if each.name == name)


def _refuse_unlike(before: Target, after: Target) -> tuple[str, ...]:
    """Return the names of outputs; raise UsageError if the two kernels do not take the same buffers."""
    buffers = [
        {each.name: (each.dtype, each.shape, each.output) for each in target.family.arguments if each.shape}
        for target in (before, after)
    ]
    if buffers[0] != buffers[1]:
        raise UsageError(f"{before.name} and {after.name} have different buffers", "describe both with the same --arg")
    outputs = tuple(name for name, (_, _, is_output) in buffers[0].items() if is_output)
    if not outputs:
        raise UsageError(f"{before.name} has no output to compare", "name one: --arg y=float32[n]:out")
    return outputs


def _sizes(target: Target, rng: np.random.Generator) -> Iterator[Mapping[str, int]]:
    """Yield the sizes of each case: one that takes seconds, one near it, perhaps larger, and two small ones."""
    first = executed.checked_size(target).problem
    parameters = {parameter.name: parameter for parameter in target.family.parameters}
    yield first
    for least, most in ((1 / 2, 9 / 8), (0, 1 / 2), (0, 1 / 2)):
        drawn = (
            {name: _between(parameters[name], least * size, most * size, rng) for name, size in first.items()}
            for _ in range(DRAWS)
        )
        # What is less than a block may leave no grid at all.
        yield next((sizes for sizes in drawn if min(target.sized(sizes).launch.grid) > 0), first)


def _between(parameter: Parameter, least: float, most: float, rng: np.random.Generator) -> int:
    """Return a value that the kernels support, in (`least`, `most`] if possible, and then no power of two."""
    step, low = parameter.multiple, max(parameter.smallest, 1)
    steps = max(int(least // step) + 1, low // step), max(int(most // step), low // step)
    chosen = int(rng.integers(steps[0], max(steps) + 1))
    power = (chosen * step).bit_count() == 1
    return step * (chosen + (power and chosen < steps[1]))


def _drawn(target: Target, seed: int, number: int) -> dict[str, np.ndarray]:
    """Return the inputs of a case: random; loud; with zeros and equal neighbours; huge. Described contents stay."""
    arguments = tuple(fills.varied(each) for each in target.family.arguments)
    drawn = fills.inputs(replace(target.family, arguments=arguments), target.problem, np.random.default_rng(seed))
    for argument in arguments:
        if argument.name in drawn and argument.fill in ("", fills.RANDOM) and fills.floating(argument):
            array = drawn[argument.name]
            flat = array.ravel()
            if number == 1 and array.dtype.itemsize > 1:
                flat = (flat.astype(np.float64) * LOUD).astype(array.dtype)
            elif number == 2:
                flat[::7], flat[1::5] = 0, flat[:1]
            elif number == 3 and array.dtype.itemsize >= 4:
                flat[::APART] *= array.dtype.type(HUGE)
            drawn[argument.name] = flat.reshape(array.shape)
    return drawn


FAULTS: dict[type[NcuSwizzleError], str] = {
    MemoryFault: "an access outside of the buffers",
    Stuck: "it hangs",
    Circling: "it hangs",
}


@contextmanager
def _verdicts(target: Target, faults: type[Exception]) -> Iterator[None]:
    """Turn what executing a version raises into a verdict: `faults` is that on a fault or a hang."""
    try:
        yield
    except EnvironmentLacking:
        raise
    except NcuSwizzleError as error:
        if said := next((said for kind, said in FAULTS.items() if isinstance(error, kind)), ""):
            raise faults(f"{f'{target.name}: ' if faults is _Unclear else ''}{said}: {error}") from error
        raise _Unclear(f"{target.name} cannot be executed: {error}") from error


def _reference(
    version: ReadyTarget, sizes: Mapping[str, int], drawn: tuple[int, int], settings: EmulationSettings
) -> tuple[ReadyTarget, dict[str, np.ndarray], ExecutedTarget]:
    """Execute the first version on inputs of a seed and a case; return it, they, and what it leaves, all of it known.

    If it does not run at the drawn sizes, as with a grid that is a number, it does at the described ones, or it cannot
    be told: then _Unclear is raised.
    """

    def at(problem: Mapping[str, int]) -> tuple[ReadyTarget, dict[str, np.ndarray], ExecutedTarget]:
        sized = version.resized(version.target.sized(problem), settings)
        inputs = _drawn(sized.target, *drawn)
        return sized, inputs, _all_known(sized, inputs)

    described = executed.checked_size(version.target).problem
    if sizes != described:
        with suppress(_Unclear):
            return at(sizes)
    return at(described)


def _all_known(version: ReadyTarget, inputs: Mapping[str, np.ndarray]) -> ExecutedTarget:
    """Execute the first version, which must run and be known. Raises _Unclear."""
    with _verdicts(version.target, _Unclear):
        ran = executed.executed(version, inputs)
    for argument in ran.outputs:
        if (ran.written(argument) & ~ran.known(argument)).any():
            raise _Unclear(f"{argument.name} of {version.target.name} is not all known: {executed.why_unknown(ran)}")
    return ran


def _attempt(version: ReadyTarget, inputs: Mapping[str, np.ndarray], how: executed.Manner) -> ExecutedTarget:
    """Execute the second version. Raises _Refused for a fault or a hang, _Unclear."""
    with _verdicts(version.target, _Refused):
        try:
            return executed.executed(version, inputs, how)
        except (Stuck, Circling, TimeLimit):
            if how.blocks is None:
                raise
        # A block may wait for another with a lower number: GPUs start these first.
        return executed.executed(version, inputs, replace(how, blocks=None, timeout_s=executed.CHECK_S))


def _compare_again(
    first: ExecutedTarget, second: ExecutedTarget, inputs: Mapping[str, np.ndarray], outputs: Sequence[str], seed: int
) -> None:
    """Launch both versions again in the same memory on other inputs, and compare what they leave.

    Raises _Refused, and _Unclear if the second one reads what its first launch left in variables of the module, as it
    may be another number in another launch; the first version alone may do so.
    """
    with _verdicts(first.target, _Unclear):
        first = first.relaunched(inputs)
    with _verdicts(second.target, _Refused):
        second = second.relaunched(inputs)
    _compare(first, second, outputs, seed)
    if second.reads_kept and not first.reads_kept:
        raise _Unclear("it reads what an earlier launch left in variables: another launch may do something else")


def _compare(first: ExecutedTarget, second: ExecutedTarget, outputs: Sequence[str], seed: int) -> ComparedRun:
    """Compare what both have left. Raises _Refused."""
    elements, worst = 0, 0.0
    for argument in first.target.family.arguments:
        is_input = argument.shape and argument.name not in outputs
        if is_input and second.touched(argument).any() and not first.touched(argument).any():
            raise _Refused(f"it writes to {argument.name}, an input")
    for name in outputs:
        argument = _argument(first.target, name)
        right, found = first.array(argument), second.array(argument)
        wrote = [ran.written(argument) for ran in (first, second)]
        missing = wrote[0] & ~wrote[1]
        at = f"at {', '.join(f'{k}={v}' for k, v in first.target.problem.items()) or 'the described size'}"
        if missing.any():
            raise _Refused(f"{int(missing.sum()):,} elements of {name} are never written {at}")
        if not second.known(argument)[wrote[0]].all():
            raise _Refused(f"{name} is not all known {at}: {executed.why_unknown(second)}")
        if (second.touched(argument) & ~first.touched(argument)).any():
            raise _Refused(f"elements of {name} are written that {first.target.name} leaves alone, {at}")
        apart = _differences(found, right, wrote[0])
        worst = max(worst, float(apart.max(initial=0.0)))
        rows = np.sqrt(np.mean(np.square(apart), axis=-1, keepdims=True)) if apart.ndim else apart
        off = (apart > 0) & (np.maximum(apart / ELEMENTWISE, rows) > argument.tolerance)
        if off.any():
            place = np.unravel_index(int(np.argmax(off)), right.shape)
            by = second.writer(argument, int(np.ravel_multi_index(place, right.shape)))
            where = ", ".join(str(int(each)) for each in place)
            wrong = f"{name}[{where}] is {found[place]}, not {right[place]}"
            raise _Refused(", ".join(filter(None, (wrong, by, at, f"seed {seed}"))))
        elements += int(wrote[0].sum())
    return ComparedRun(problem=dict(first.target.problem), seed=seed, elements=elements, error=worst)


def _differences(found: np.ndarray, right: np.ndarray, compared: np.ndarray) -> np.ndarray:
    """Return how far each element is off, relative to itself or to the mean size of its row: inf for NaN."""
    same = found == right
    if right.dtype.kind in "iub":
        return np.where(same | ~compared, 0.0, np.inf)
    a, b = found.astype(np.float64), right.astype(np.float64)
    finite = np.where(np.isfinite(b), b, 0.0)
    usual = np.sqrt(np.mean(finite**2, axis=-1, keepdims=True)) if b.ndim else np.abs(finite)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b) / np.maximum(np.maximum(np.abs(b), usual), np.finfo(np.float64).tiny)
    both_nan = np.isnan(a) & np.isnan(b)
    apart = np.where(same | both_nan, 0.0, np.where(np.isfinite(apart), apart, np.inf))
    return np.where(compared, apart, 0.0)


# ---------------------------------------------------------------------------------------------- launches


def _judge_launches(old: ReadyTarget, new: ReadyTarget, settings: EmulationSettings) -> Costs:
    """Return what launches take; raise _Refused for a race, or another fault, that only the second version has, and
    _Unclear if it is not known whether it has one.
    """
    settings = replace(settings, races=True)
    launches: list[Emulated] = []
    for version, faults in ((old, _Unclear), (new, _Refused)):
        with _verdicts(version.target, faults):
            launches.append(emulate_cubin(version.target, version.binary.cubin.data, settings=settings))
    before, after = (each.profile for each in launches)
    known = Counter(each.code for each in violations(before))
    for each in violations(after):
        known[each.code] -= 1
        if known[each.code] < 0 and each.code not in SAME_STORED:
            where = f" at {each.line[0]}:{each.line[1]}" if each.line else ""
            raise _Refused(f"{each.code}{where}: {each.message}")
    doubts = {each.code for each in before.unknowns}
    for doubt in after.unknowns:
        if doubt.code in (codes.UNCHECKED_ORDER, codes.UNCHECKED_BOUNDS) and doubt.code not in doubts:
            raise _Unclear(f"it is not known, and is of {old.target.name}: {doubt.reason} ({doubt.code})")
    return Costs(
        wavefronts=(before.total.wavefronts, after.total.wavefronts),
        sectors=(_sectors(launches[0]), _sectors(launches[1])),
        cycles=(_cycles(before), _cycles(after)),
    )


def _sectors(version: Emulated) -> int | None:
    """Return the sectors of global memory of a launch; None if some are unknown."""
    if any(row.traffic_unknown for row in version.counts.rows):
        return None
    return sum(row.traffic.sectors or 0 for row in version.counts.rows)


def _cycles(profile: Profile) -> int | None:
    return (
        None if profile.simulated is None or profile.simulated.cycles is None else round(profile.simulated.cycles.point)
    )
