"""What a check found, and what all of them together mean."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

SCHEMA = 1


class Outcome(StrEnum):
    """`bad` keeps the main job, measuring, from running; `doubtful` may, or only makes it worse."""

    good = "good"
    doubtful = "doubtful"
    bad = "bad"


@dataclass(frozen=True)
class Check:
    """One answer: what was looked at, what was found, and what to type, where something is to be done."""

    name: str
    outcome: Outcome
    said: str
    cure: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All answers, in the order in which they were asked for."""

    checks: tuple[Check, ...]

    @property
    def able(self) -> bool:
        """Whether nothing keeps this machine from measuring."""
        return all(one.outcome is not Outcome.bad for one in self.checks)

    def to_json(self) -> str:
        content = {"schema": SCHEMA, "able": self.able, "checks": [asdict(one) for one in self.checks]}
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def good(name: str, said: str) -> Check:
    return Check(name, Outcome.good, said)


def doubtful(name: str, said: str, cure: str = "") -> Check:
    return Check(name, Outcome.doubtful, said, cure)


def bad(name: str, said: str, cure: str) -> Check:
    return Check(name, Outcome.bad, said, cure)


def of(checks: Iterable[Check]) -> Diagnosis:
    return Diagnosis(tuple(checks))
