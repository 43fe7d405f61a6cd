"""Suggest a mapping for recorded accesses, which may have many requests: searched for on some, verified on all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.judge import Candidate, Constraints, Judge
from ncu_swizzle.smem.layout import Ints
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.suggestions import MOST_REQUESTS, Suggestion, suggest

TRIED = 96  # requests per access to search on
VERIFIED = 24  # candidates to count on all requests
KEPT = 5  # clean ones that are enough


def suggest_by_trial(plain: Mapping, accesses: Sequence[Access], constraints: Constraints | None = None) -> Suggestion:
    """Return what `suggest` says of a sample of each access's requests, with every candidate counted on all of them.

    Raises UsageError if an access is impossible or no rule gives its wavefronts.
    """
    limits = constraints or Constraints()
    most = min(TRIED, MOST_REQUESTS // max(1, len(accesses)))
    if most == 0:
        raise UsageError(
            f"{len(accesses):,} accesses to one tile are too many to search for", "profile a smaller kernel"
        )
    samples = [access.chosen(_sample(access, plain, most)) for access in accesses]
    suggestion = suggest(plain, samples, limits)
    countable = tuple(access for access in accesses if access.wavefronts(plain).known.all())
    if not countable:
        raise UsageError(f"no rule gives the wavefronts of {accesses[0].op} here", "add another access")
    granule = max(access.granule(plain.element_bytes) for access in accesses)
    judge = Judge(plain, countable, limits, granule)
    clean = tuple(islice(_verified(suggestion.clean[:VERIFIED], judge), KEPT))
    first = judge.candidate(plain)
    closest = clean[0] if clean else min((first, judge.recounted(suggestion.closest)), key=lambda c: c.actual)
    return replace(
        suggestion,
        plain=first,
        clean=clean,
        closest=closest,
        unjudged=tuple(access.name for access in accesses if access not in countable),
        complete=suggestion.complete and bool(clean) == bool(suggestion.clean),
    )


def _verified(candidates: Sequence[Candidate], judge: Judge) -> Iterator[Candidate]:
    return (counted for counted in map(judge.recounted, candidates) if counted.clean)


def _sample(access: Access, plain: Mapping, most: int) -> Ints:
    """Return the indices of a sample of requests: the worst half first, then an even spread of the rest."""
    excess = access.wavefronts(plain).actual
    order = np.argsort(-excess, kind="stable")
    if len(order) <= most:
        return np.sort(order)
    worst, rest = order[: most // 2], order[most // 2 :]
    return np.concatenate([worst, rest[:: -(-len(rest) // (most - len(worst)))]])
