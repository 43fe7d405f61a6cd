"""What stopped the candidates of a tile: of all of them, the one that came furthest says why nothing is proved."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.files import brief
from ncu_swizzle.patch.draft import Unfit
from ncu_swizzle.proof.claims import About, Claim, Proof, State

ORDER = tuple(About)
WRITTEN = 1  # stages: the claims follow


@dataclass(frozen=True)
class Stop:
    """How far a candidate came, and what stopped it there, in which line."""

    stage: int
    reason: str
    line: Location
    mapping: str
    unknown: bool = False

    def against(self, best: str) -> str:
        """Return the reason; with the mapping that it is about, if that is not the best one."""
        return self.reason if self.mapping == best else f"{self.reason}, with {self.mapping}"


def unwritten(text: Unfit, line: Location, mapping: str) -> Stop:
    """Return the stop of a mapping that cannot be written."""
    return Stop(0, str(text), line, mapping)


def unbuilt(error: Exception) -> Proof:
    """Return the proof of a patch with which the kernel cannot be had: one that fails."""
    reason = f"the patched source does not compile or cannot be emulated: {brief(error)}"
    return Proof((Claim(About.REBUILT, State.FAILED, reason),))


def unproved(proof: Proof, line: Location, mapping: str) -> Stop:
    """Return the stop of a patch whose proof does not hold; `line` is the tile's."""
    obstacle, meaning = proof.obstacle, proof.claim(About.MEANING)
    assert obstacle is not None
    if obstacle.state is State.UNKNOWN and meaning is not None and not meaning.held:
        obstacle = meaning  # which says why, and where
    at = obstacle.line or line
    stage = WRITTEN + ORDER.index(obstacle.about)
    return Stop(stage, obstacle.reason, at, mapping, obstacle.state is State.UNKNOWN)


def furthest(one: Stop | None, other: Stop) -> Stop:
    """Return the stop that came further; of two that came equally far the first, which is of the better mapping."""
    return other if one is None or other.stage > one.stage else one
