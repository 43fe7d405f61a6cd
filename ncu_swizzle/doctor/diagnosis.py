"""The finding of each check, and the diagnosis that they add up to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum

from ncu_swizzle.texts import in_json

SCHEMA = 1


class Status(StrEnum):
    """`bad` prevents measuring (or computing); `doubtful` may prevent it, or only degrades it."""

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
    """All findings on measuring, and those on computing without a GPU, each in the order of the checks."""

    checks: tuple[HealthCheck, ...]
    computing: tuple[HealthCheck, ...] = ()  # empty: not examined

    @property
    def able(self) -> bool:
        """Whether this machine can measure."""
        return not self.obstacles

    @property
    def computes(self) -> bool:
        """Whether the emulated engine works here."""
        return bool(self.computing) and not _bad(self.computing)

    @property
    def obstacles(self) -> tuple[HealthCheck, ...]:
        """What prevents measuring."""
        return _bad(self.checks)

    @property
    def computing_obstacles(self) -> tuple[HealthCheck, ...]:
        """What prevents computing."""
        return _bad(self.computing)

    def to_json(self) -> str:
        content = {
            "schema": SCHEMA,
            "able": self.able,
            "checks": [asdict(check) for check in self.checks],
            "computes": self.computes,
            "computing": [asdict(check) for check in self.computing],
        }
        return in_json(content, indent=1)


def _bad(checks: tuple[HealthCheck, ...]) -> tuple[HealthCheck, ...]:
    return tuple(check for check in checks if check.outcome is Status.bad)


def good(name: str, said: str) -> HealthCheck:
    return HealthCheck(name, Status.good, said)


def doubtful(name: str, said: str, cure: str = "") -> HealthCheck:
    return HealthCheck(name, Status.doubtful, said, cure)


def bad(name: str, said: str, cure: str) -> HealthCheck:
    return HealthCheck(name, Status.bad, said, cure)
