"""Calibrate the rule ConflictCost: ``python3 bench/figures/calibration.py [--write]``. Needs no GPU.

From what bench/figures/costs.py and bench/figures/pairs.py measured on an H100, and from the recorded catalogue: pairs
of launches before and after one change of layout. The programs, never the pairs, are split by a hash of their names. A
third fits what is saved (the median, linear in the traits of the rule) and how much it errs; the others give the factor
by which that error is multiplied so that 90 % of programs are covered: split conformal prediction (Vovk et al. 2005;
Lei et al. 2018) with a score |saved - expected| / spread and, because pairs of a program are alike, the weights of
hierarchical conformal prediction (Lee, Barber and Willett 2023). If programs are exchangeable, an interval holds for a
pair of a new program with a probability of at least 90 %.

Whether that is so is then tried: programs are left out in tens, and everything is fitted and calibrated without them,
several times over. Pairs of public programs are kept back: nothing is fitted to them.
--write puts the constants into rules/swizzle_pack/calibration.py, and the tables into docs/rules.md.

"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from bench.figures import bottlenecks, pairs
from bench.figures.tables import ROOT, head, replace, row
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports import pack

cost, facts_ = pack.pack("cost"), pack.pack("facts")

COSTS = ROOT / "bench" / "figures" / "costs" / "recorded" / "costs.json.xz"
TABLE = ROOT / "rules" / "swizzle_pack" / "calibration.py"
COVERAGE = 0.9
SPREAD_AT = 0.7  # the quantile of the errors that the spread is fitted to: which one matters little
FOLDS, TURNS = 10, 10
FITTED = 1 / 3  # of the programs; the others calibrate: the factor is a quantile far out, and needs more of them
PUBLIC = "public"
FEWEST_PROGRAMS = 3  # with a kind of access, for a launch with that kind to get an estimate
DURATION = "gpu__time_duration.sum"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A launch, how many excessive wavefronts a change of its layout removed, and what share of time that saved."""

    name: str
    program: str
    source: str
    facts: Any
    removed: int
    saved: float

    @property
    def traits(self) -> Any:
        return cost.traits(self.facts, self.removed)

    @property
    def kinds(self) -> list[str]:
        return cost.conflicting(self.facts)  # type: ignore[no-any-return]


# ---------------------------------------------------------------------------------------------------- what was measured


def measured() -> list[Pair]:
    """Return all pairs that remove excess and whose warps were sampled often enough, of kinds that programs share."""
    every = [
        pair
        for pair in (*_costs(), *_pairs(), *_catalogue())
        if pair.removed > 0 and sum(pair.facts.stalls().values()) >= facts_.FEW_SAMPLES and pair.traits is not None
    ]
    kinds = known_kinds([pair for pair in every if pair.source != PUBLIC])
    return [pair for pair in every if set(pair.kinds) <= set(kinds)]


def of_sources(every: Sequence[Pair]) -> tuple[Measured, Measured]:
    """Return the pairs to calibrate with, and those of public programs."""
    public = [pair.source == PUBLIC for pair in every]
    return Measured.of(every).only(~np.array(public)), Measured.of(every).only(np.array(public))


def known_kinds(given: Sequence[Pair]) -> tuple[str, ...]:
    """Return the kinds of access that enough programs have; the rule estimates nothing for launches with others."""
    programs: dict[str, set[str]] = {}
    for pair in given:
        for kind in pair.kinds:
            programs.setdefault(kind, set()).add(pair.program)
    return tuple(sorted(kind for kind, having in programs.items() if len(having) >= FEWEST_PROGRAMS))


def _costs() -> Iterator[Pair]:
    for entry in json.loads(lzma.decompress(COSTS.read_bytes()))["rows"]:
        before, after = (_facts(entry[side]) for side in ("before", "after"))
        taken = [median(ns) for ns in entry.get("ns", ())] or [side.number(DURATION) for side in (before, after)]
        yield Pair(name=entry["pair"], program=entry["program"], source=entry["source"], facts=before,
                   removed=before.total.excessive - after.total.excessive, saved=1 - taken[1] / taken[0])  # fmt: skip


def _facts(side: dict[str, Any]) -> Any:
    """Return a launch as bench/figures/costs.py keeps it in the pack's types."""
    accesses = [
        facts_.Instruction(pc=pc, sass=sass, access=facts_.access(sass, wavefronts), executed=executed,
                           wavefronts=wavefronts, ideal=ideal, samples=samples)
        for pc, (sass, executed, wavefronts, ideal, samples) in enumerate(side["accesses"])
    ]  # fmt: skip
    others = [
        facts_.Instruction(pc=len(accesses) + pc, sass=opcode, executed=executed, samples=samples)
        for pc, (opcode, (executed, samples)) in enumerate(side["others"].items())
    ]
    return facts_.Facts(side["metrics"], (*accesses, *others))


def _pairs() -> Iterator[Pair]:
    for name, before, after in pairs.recorded():
        program = before.kernel.function.partition("<")[0].rpartition("::")[2]
        yield _pair(name, f"pairs {program}", "pairs", before, after)


def _catalogue() -> Iterator[Pair]:
    for family, kernel in catalog.shipped().run():
        if kernel.baseline:
            before, after = (bottlenecks.read(name) for name in (kernel.baseline, kernel.name))
            yield _pair(kernel.name, family.name, "recordings", before, after)


def _pair(name: str, program: str, source: str, before: Any, after: Any) -> Pair:
    removed = (before.total.excessive or 0) - (after.total.excessive or 0)
    saved = 1 - (after.duration_ns or 0) / (before.duration_ns or 1)
    return Pair(name=name, program=program, source=source, facts=pack.facts(before), removed=removed, saved=saved)


# --------------------------------------------------------------------------------------------------------- calibration


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Pairs as arrays: terms (pairs, 4), and one value per pair; a program's pairs have a weight of one together."""

    pairs: Sequence[Pair]
    terms: np.ndarray
    hidden: np.ndarray
    room: np.ndarray
    reached: np.ndarray
    saved: np.ndarray
    program: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, given: Sequence[Pair]) -> Measured:
        traits = [pair.traits for pair in given]
        count = Counter(pair.program for pair in given)
        return cls(
            pairs=given,
            terms=np.array([one.terms for one in traits]),
            hidden=np.array([one.hidden for one in traits]),
            room=np.array([one.room for one in traits]),
            reached=np.array([one.reached for one in traits]),
            saved=np.array([pair.saved for pair in given]),
            program=np.array([pair.program for pair in given]),
            weight=np.array([1 / count[pair.program] for pair in given]),
        )

    def only(self, chosen: np.ndarray) -> Measured:
        """Return the pairs that `chosen`, booleans, says."""
        return Measured.of([pair for pair, taken in zip(self.pairs, chosen, strict=True) if taken])


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What the rule estimates with: weights of the terms, the spread's two numbers, and the factor."""

    saved: np.ndarray
    spread: tuple[float, float]
    factor: float

    def spreads(self, data: Measured) -> np.ndarray:
        always, hidden = self.spread
        return np.maximum(cost.LEAST_SPREAD, always + hidden * data.hidden)

    def interval(self, data: Measured) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return low, point and high of each pair, as the rule does."""
        point, spread = self.points(data), self.factor * self.spreads(data)
        return point - spread, point, np.maximum(point, np.minimum(point + spread, data.room))

    def points(self, data: Measured) -> np.ndarray:
        return np.minimum(data.terms @ self.saved, data.reached)


def calibrated(fitting: Measured, held: Measured) -> Fit:
    """Return the fit to some programs, with the factor that covers the others."""
    free = fitting.terms[:, 0] < fitting.reached  # what another unit limits says nothing of the pipe
    saved = quantile_fit(fitting.terms[free], fitting.saved[free], 0.5, fitting.weight[free])
    fit = Fit(saved=saved, spread=(0.0, 0.0), factor=1.0)
    errors = np.abs(fitting.saved - fit.points(fitting))
    always, hidden = quantile_fit(
        np.column_stack([np.ones_like(errors), fitting.hidden]), errors, SPREAD_AT, fitting.weight
    )
    fit = Fit(saved=saved, spread=(float(always), float(hidden)), factor=1.0)
    scores = np.abs(held.saved - fit.points(held)) / fit.spreads(held)
    return Fit(saved=saved, spread=fit.spread, factor=hierarchical(scores, held.weight, COVERAGE))


def quantile_fit(terms: np.ndarray, values: np.ndarray, quantile: float, weight: np.ndarray) -> np.ndarray:
    """Return the weights, (terms,), of a weighted quantile regression, by least squares that are weighted again."""
    found = np.zeros(terms.shape[1])
    scale = weight.copy()
    for _ in range(200):
        scaled = terms.T * scale
        found = np.linalg.solve(scaled @ terms + 1e-6 * np.eye(len(found)), scaled @ values)
        errors = values - terms @ found
        scale = weight * np.where(errors >= 0, quantile, 1 - quantile) / np.maximum(np.abs(errors), 5e-3)
    return found


def hierarchical(scores: np.ndarray, weight: np.ndarray, level: float) -> float:
    """Return the quantile of scores whose programs weigh 1/(programs + 1) each, and infinity as much as one.

    Raises SystemExit if there are too few programs for it to be finite.
    """
    order = np.argsort(scores)
    reached = np.cumsum(weight[order]) / (round(float(weight.sum())) + 1)
    place = int(np.searchsorted(reached, level - 1e-12))
    if place == len(scores):
        raise SystemExit(f"too few programs for a coverage of {level:.0%}")
    return float(scores[order][place])


def fitted(data: Measured) -> Fit:
    """Return what the rule gets: fitted to a third of the programs, by a hash of their names."""
    fitting = np.array([hashlib.sha256(name.encode()).digest()[0] < 256 * FITTED for name in data.program])
    return calibrated(data.only(fitting), data.only(~fitting))


# ------------------------------------------------------------------------------------------------- programs left out


@dataclass(frozen=True, kw_only=True)
class Held:
    """Of one pair, left out so many times: in which share of these its interval held, and its median width."""

    pair: Pair
    held: float
    width: float


def left_out(data: Measured) -> list[Held]:
    """Return how the intervals do on programs that neither fit nor factor has seen."""
    rng, names = np.random.default_rng(41), np.unique(data.program)
    held: list[list[bool]] = [[] for _ in data.pairs]
    widths: list[list[float]] = [[] for _ in data.pairs]
    for _ in range(TURNS):
        order = rng.permutation(names)
        for fold in range(FOLDS):
            out = order[fold::FOLDS]
            rest = rng.permutation(np.setdiff1d(names, out))
            parts = np.split(rest, [int(FITTED * len(rest))])
            fitting, holding = (data.only(np.isin(data.program, part)) for part in parts)
            chosen = np.isin(data.program, out)
            tried = data.only(chosen)
            low, _, high = calibrated(fitting, holding).interval(tried)
            for place, inside, width in zip(
                np.flatnonzero(chosen), (low <= tried.saved) & (tried.saved <= high), high - low, strict=True
            ):
                held[place].append(bool(inside))
                widths[place].append(float(width))
    return [
        Held(pair=pair, held=float(np.mean(inside)), width=median(width))
        for pair, inside, width in zip(data.pairs, held, widths, strict=True)
    ]


# -------------------------------------------------------------------------------------------------------- what is shown


def summary(tried: Sequence[Held]) -> str:
    """Return coverage and widths on programs left out, for all pairs and by how much of the pipe's time is freed."""
    lines = [head("freed by the fix", "pairs", "programs", "intervals that hold", "of programs", "median width")]
    groups = [("all", tried)]
    for low, high in ((0, 0.1), (0.1, 0.3), (0.3, 0.6), (0.6, 1.0)):
        groups.append((f"{low:.0%} to {high:.0%}", [one for one in tried if low <= one.pair.traits.freed < high]))
    for name, some in groups:
        programs = Counter(one.pair.program for one in some)
        of_programs = sum(one.held / programs[one.pair.program] for one in some) / max(1, len(programs))
        covered = np.mean([one.held for one in some])
        width = 100 * median(one.width for one in some)
        lines.append(row(name, len(some), len(programs), f"{covered:.1%}", f"{of_programs:.1%}", f"{width:.1f} points"))
    return "\n".join(lines) + "\n"


def kept_back(fit: Fit, public: Measured) -> str:
    """Return the intervals of the pairs that nothing was fitted to."""
    lines = [head("before → after", "estimate", "interval", "measured")]
    for pair, low, point, high in zip(public.pairs, *fit.interval(public), strict=True):
        inside = "" if low <= pair.saved <= high else " (not in it)"
        cells = (f"{100 * point:.1f}", f"{100 * low:.1f} to {100 * high:.1f}", f"{100 * pair.saved:.1f}{inside}")
        lines.append(row(f"{pair.program.removeprefix('public ')}: {pair.name}", *cells))
    return "\n".join(lines) + "\n"


def constants(fit: Fit, data: Measured) -> str:
    """Return the module with what the rule needs."""
    kinds = known_kinds(data.pairs)
    shortest = min(pair.facts.number(DURATION) for pair in data.pairs)
    return f'''"""What `cost` estimates with: written by bench/figures/calibration.py, which says how. Do not edit.

Fitted to launches on an H100: {len(data.pairs)} pairs of {len(set(data.program))} programs.
"""

SAVED = ({", ".join(f"{value:.4f}" for value in fit.saved)})  # weights of the terms
SPREAD = ({fit.spread[0]:.4f}, {fit.spread[1]:.4f})  # always, and with the freed time that no warp waits for
FACTOR = {fit.factor:.4f}
COVERAGE = {COVERAGE}  # of programs, by intervals of FACTOR spreads
SHORTEST_NS = {shortest:.1f}
CAPABILITY = (9.0, 0.0)
KINDS = ({", ".join(f'"{kind}"' for kind in kinds)})
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the constants, and the tables in docs/rules.md")
    arguments = parser.parse_args()
    data, public = of_sources(measured())
    fit = fitted(data)
    text = constants(fit, data)
    tables = {"left out": summary(left_out(data)), "kept back": kept_back(fit, public) if public.pairs else "none\n"}
    print(text, *tables.values(), sep="\n")
    if arguments.write:
        TABLE.write_text(text, encoding="utf-8")
        for name, table in tables.items():
            replace(ROOT / "docs" / "rules.md", name, __file__, table)


if __name__ == "__main__":
    sys.exit(main())
