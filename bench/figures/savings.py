"""Calibrate what the simulated SM says of cycles and savings.

``python3 bench/figures/savings.py [--write]``. Needs no GPU.

From the launches of bench/figures/pairs and bench/figures/costs, which the model was made with, and of
bench/figures/fresh, which it was not. A saving is what the simulation says if the removed share of the excessive
wavefronts takes no time, or, of both launches, the difference; measured is what the change saved, with all else that it
did. The programs, never the pairs, are split by a hash of their names, as bench/figures/calibration.py does: a third
fits how much a saving errs, the others give the factor that covers 90 % of programs. Whether that is so is tried on
programs left out in tens, and on bench/figures/fresh with intervals from the others. --write puts the constants into
ncu_swizzle/cycles/intervals.py and the tables into docs/cycles.md.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from bench.figures import costs_changes, tables
from bench.figures.calibration import (
    COVERAGE,
    FEWEST_PROGRAMS,
    FITTED,
    FOLDS,
    SPREAD_AT,
    TURNS,
    hierarchical,
    quantile_fit,
)
from bench.figures.cycles import KEPT, PATIENCE_S, simulated
from bench.figures.cycles_launches import Launch, compiled, launches
from bench.figures.tables import ROOT, head, row
from ncu_swizzle.cycles.simulator import SimulatedSm, Simulator, machine, machine_for_launch

TABLE = ROOT / "ncu_swizzle" / "cycles" / "intervals.py"
LEAST = 0.02  # a spread is not smaller: two measurements of a launch of microseconds differ by as much
FRESH = "bench/figures/fresh"
WITHIN = 0.05
PAIRS = 100  # of the first launches, which are pairs


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A pair: what was saved as measured, and as simulated from the first launch; by which factors cycles were off."""

    name: str
    program: str
    saved: float
    said: float
    kinds: tuple[str, ...]
    off: tuple[float, float]
    executed: float  # instructions of the second launch, per one of the first

    @property
    def both(self) -> float:
        """What is saved if both launches are simulated."""
        return 1 - (1 - self.saved) * self.off[1] / self.off[0]


def judged(pairs: Iterable[tuple[Launch, Launch]], simulator: Simulator, base: SimulatedSm) -> list[Judged]:
    """Return the pairs whose change removes excess."""
    chosen, asked = [], []
    for before, after in pairs:
        (actual, ideal), (left, _) = before.work.wavefronts, after.work.wavefronts
        if actual - ideal < 1 or left >= actual:
            continue
        sm = machine_for_launch(base, before.work)
        removed = min(1.0, (actual - left) / (actual - ideal))
        asked += [(before.work, sm), (after.work, machine_for_launch(base, after.work))]
        asked += [(before.work, replace(sm, removed=removed))]
        chosen.append((before, after))
    found = [each.cycles for each in simulated(simulator, asked)]
    return [
        Judged(
            name=before.name, program=before.family, saved=1 - after.cycles / before.cycles, said=1 - kept / was,
            kinds=before.kinds, off=(was / before.cycles, other / after.cycles),
            executed=executed(after) / executed(before),
        )
        for (before, after), was, other, kept in zip(chosen, found[::3], found[1::3], found[2::3], strict=True)
    ]  # fmt: skip


def executed(launch: Launch) -> int:
    """Return the instructions that a block's warps execute."""
    return sum(map(len, launch.work.execution.numbers))


# --------------------------------------------------------------------------------------------------------- calibration

ALONE, BOTH = "said", "both"  # what is said of savings, from one launch and from both
Spread = tuple[float, float]  # how much a saving may be off: always, and per saving


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The spread of a saving from the first launch and from both, and the factor by which cycles may be off."""

    spreads: Mapping[str, Spread]
    cycles: float


def weights(given: Sequence[Judged]) -> np.ndarray:
    """Return a weight per pair; those of a program have one together."""
    count = Counter(one.program for one in given)
    return np.array([1 / count[one.program] for one in given])


def off_by(spread: Spread, said: np.ndarray) -> np.ndarray:
    return np.maximum(LEAST, spread[0] + spread[1] * np.abs(said))


def savings_of(given: Sequence[Judged], what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return what is said of the savings of pairs, and what was measured."""
    return np.array([getattr(one, what) for one in given]), np.array([one.saved for one in given])


def spread(fitting: Sequence[Judged], held: Sequence[Judged], what: str) -> Spread:
    """Return the spread as fitted to some programs, times the factor that covers the others."""
    said, saved = savings_of(fitting, what)
    terms = np.column_stack([np.ones_like(said), np.abs(said)])
    always, per_saving = quantile_fit(terms, np.abs(said - saved), SPREAD_AT, weights(fitting))
    fit = float(always), max(0.0, float(per_saving))
    said, saved = savings_of(held, what)
    factor = hierarchical(np.abs(said - saved) / off_by(fit, said), weights(held), COVERAGE)
    return max(LEAST * factor, factor * fit[0]), factor * fit[1]


def calibrated(fitting: Sequence[Judged], held: Sequence[Judged]) -> Fit:
    """Return the fit to some programs, with the factors that cover the others."""
    off = np.abs(np.log([one.off for one in held]))
    cycles = hierarchical(off.ravel(), np.repeat(weights(held), 2) / 2, COVERAGE)
    return Fit(spreads={what: spread(fitting, held, what) for what in (ALONE, BOTH)}, cycles=float(np.exp(cycles)))


def fitted(given: Sequence[Judged]) -> Fit:
    """Return what the package gets: fitted to a third of the programs, by a hash of their names."""
    fits = [hashlib.sha256(one.program.encode()).digest()[0] < 256 * FITTED for one in given]
    chosen = [[one for one, fit in zip(given, fits, strict=True) if fit == which] for which in (True, False)]
    return calibrated(*chosen)


def left_out(given: Sequence[Judged]) -> str:
    """Return how the intervals do on programs that they were not made with."""
    rng, names = np.random.default_rng(41), sorted({one.program for one in given})
    tried = []
    for _ in range(TURNS):
        order = rng.permutation(names)
        for fold in range(FOLDS):
            out = set(order[fold::FOLDS])
            rest = rng.permutation([name for name in names if name not in out])
            fitting = set(rest[: int(FITTED * len(rest))])
            fit = calibrated(
                [one for one in given if one.program in fitting],
                [one for one in given if one.program not in fitting | out],
            )
            tried.append((fit, [one for one in given if one.program in out]))
    return row("programs left out in tens", len(given), len(names), *covered(tried))


def covered(tried: Sequence[tuple[Fit, Sequence[Judged]]]) -> list[str]:
    """Return the share of savings that hold and how wide intervals are, from one launch and both; and of cycles."""
    cells = []
    for what in (ALONE, BOTH):
        inside: list[bool] = []
        widths: list[float] = []
        for fit, given in tried:
            said, saved = savings_of(given, what)
            off = off_by(fit.spreads[what], said)
            high = np.minimum(1.0, said + off)
            inside += list((said - off <= saved) & (saved <= high))
            widths += list(high - (said - off))
        cells += [f"{np.mean(inside):.1%}", f"{100 * median(widths):.1f} points"]
    held = [np.abs(np.log(one.off)) <= np.log(fit.cycles) for fit, given in tried for one in given]
    return [*cells, f"{np.mean(held):.1%}"]


def kinds(given: Sequence[Judged]) -> tuple[str, ...]:
    """Return the kinds of access that enough programs have."""
    programs: dict[str, set[str]] = {}
    for one in given:
        for kind in one.kinds:
            programs.setdefault(kind, set()).add(one.program)
    return tuple(sorted(kind for kind, having in programs.items() if len(having) >= FEWEST_PROGRAMS))


# -------------------------------------------------------------------------------------------------------- what is shown


def summary(name: str, given: Sequence[Judged]) -> str:
    """Return a row on how far cycles and savings are from those measured."""
    off = np.abs(np.array([one.off for one in given]) - 1)
    cells = []
    for what in (BOTH, ALONE):
        apart = np.abs(np.subtract(*savings_of(given, what)))
        cells += [f"{np.mean(apart <= WITHIN):.0%}", f"{100 * apart.mean():.1f}, {100 * median(apart):.1f}"]
    return row(
        name, len(given), len({one.program for one in given}), f"{off.mean():.1%}", f"{median(off.ravel()):.1%}", *cells
    )  # fmt: skip


# Of how many more, or fewer, instructions the second launch executes.
CHANGES = {"no more than 2%": (0.0, 0.02), "2 to 10%": (0.02, 0.1), "more than 10%": (0.1, float("inf"))}


def constants(fit: Fit, given: Sequence[Judged]) -> str:
    """Return the module with what the package says."""
    return f'''"""How far a simulation errs: written by bench/figures/savings.py, which says how. Do not edit.

Fitted to launches on an H100: {len(given)} pairs of {len({one.program for one in given})} programs.
"""

COVERAGE = {COVERAGE}  # of programs, by these intervals
CYCLES = {fit.cycles:.4f}  # the factor by which cycles may be off, either way
# How much a saving may be off, always and per saving: from the launch before alone, and if both are simulated.
SAVED = ({", ".join(f"{part:.4f}" for part in fit.spreads[ALONE])})
BOTH = ({", ".join(f"{part:.4f}" for part in fit.spreads[BOTH])})
KINDS = ({", ".join(f'"{kind}"' for kind in kinds(given))})
'''


def told(sets: Mapping[str, Sequence[Judged]]) -> tuple[str, dict[str, str]]:
    """Return the module with what the package says, and the tables for docs/cycles.md by their markers."""
    given, fresh = [one for some in sets.values() for one in some], sets[FRESH]
    others = [one for name, some in sets.items() if name != FRESH for one in some]
    columns = ("pairs", "programs", "error of cycles", "median", "both launches simulated: savings within 5 points",
               "mean, median error, points", "from the launch before alone", "mean, median error, points")  # fmt: skip
    errors = [head("", *columns), *(summary(name, some) for name, some in sets.items())]
    grouped = {
        name: [one for one in given if least <= abs(one.executed - 1) < most] for name, (least, most) in CHANGES.items()
    }
    changes = [head("instructions executed differ by", *columns), *(summary(*group) for group in grouped.items())]
    columns = ("pairs", "programs", "from the launch before alone: savings that hold", "median width",
               "both launches simulated: savings that hold", "median width", "cycles that hold")  # fmt: skip
    tried = [
        head("intervals", *columns),
        left_out(given),
        row(f"{FRESH}, by the other two", len(fresh), len({one.program for one in fresh}),
            *covered([(fitted(others), fresh)])),
    ]  # fmt: skip
    shown = {"errors": errors, "changes": changes, "intervals": tried}
    return constants(fitted(given), given), {name: "\n".join(lines) + "\n" for name, lines in shown.items()}


def write(text: str, written: Mapping[str, str]) -> None:
    TABLE.write_text(text, encoding="utf-8")
    for name, table in written.items():
        tables.replace(ROOT / "docs" / "cycles.md", name, __file__, table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the constants, and the tables in docs/cycles.md")
    parser.add_argument("--each", action="store_true", help="print each pair")
    parser.add_argument("--kept", type=Path, default=KEPT, help="the folder with what warps execute")
    arguments = parser.parse_args()
    base, every = machine(), launches(arguments.kept)
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(Path(folder), PATIENCE_S)
        pairs = {
            "bench/figures/pairs": zip(every[:PAIRS:2], every[1:PAIRS:2], strict=True),
            "bench/figures/costs": compiled(arguments.kept, costs_changes.OWN),
            FRESH: compiled(arguments.kept, costs_changes.FRESH),
        }
        sets = {name: judged(some, simulator, base) for name, some in pairs.items()}
    for one in [one for given in sets.values() for one in given] if arguments.each else ():
        print(f"{one.name}: saved {one.saved:.1%}, simulated {one.said:.1%}, cycles {one.off[0]:.2f} {one.off[1]:.2f}")
    text, written = told(sets)
    print(text, *written.values(), sep="\n")
    if arguments.write:
        write(text, written)


if __name__ == "__main__":
    sys.exit(main())
