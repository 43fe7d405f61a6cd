"""The finding of each check, and the diagnosis that they add up to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum

from ncu_swizzle.texts import in_json

SCHEMA = 1


class Status(StrEnum):
    """`bad` prevents measuring; `doubtful` may prevent it, or only degrades it."""

    good = "good"
    doubtful = "doubtful"
    bad = "bad"


@dataclass(frozen=True)
class HealthCheck:
    """One finding: what was checked, what was found, and what to type if something has to be done.

    The fields are the keys of the JSON output.
    """

    name: str
    outcome: Status
    said: str
    cure: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All findings, in the order of the checks."""

    checks: tuple[HealthCheck, ...]

    @property
    def able(self) -> bool:
        """Whether this machine can measure."""
        return all(check.outcome is not Status.bad for check in self.checks)

    def to_json(self) -> str:
        content = {"schema": SCHEMA, "able": self.able, "checks": [asdict(check) for check in self.checks]}
        return in_json(content, indent=1)


def good(name: str, said: str) -> HealthCheck:
    return HealthCheck(name, Status.good, said)


def doubtful(name: str, said: str, cure: str = "") -> HealthCheck:
    return HealthCheck(name, Status.doubtful, said, cure)


def bad(name: str, said: str, cure: str) -> HealthCheck:
    return HealthCheck(name, Status.bad, said, cure)
