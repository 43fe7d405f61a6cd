"""How many warp samples shares rest on, and whether they are too few to show as measured."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.pack import bridge
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.render.view import text


@dataclass(frozen=True)
class Sampled:
    """A profile's number of warp samples, as text; `few` if its shares are no more than an indication."""

    label: str
    samples: int
    few: bool

    @property
    def counted(self) -> str:
        return f"n = {text.count(self.samples)}" if self.samples else ""


def few(samples: int) -> bool:
    """Return whether shares of so many samples are too uncertain to reason from; without samples there are none."""
    return 0 < samples < least()


def least() -> int:
    """Return the number of samples from which the rule pack reasons."""
    return int(bridge.pack("facts").FEW_SAMPLES)


def sampled(comparison: Comparison) -> tuple[Sampled, ...]:
    """Return each profile's number of warp samples."""
    counts = [sum(profile.stalls.values()) for profile in comparison.profiles]
    return tuple(Sampled(label, n, few(n)) for label, n in zip(comparison.labels, counts, strict=True))


def caution(counts: tuple[Sampled, ...]) -> str:
    """Return a sentence naming the profiles with too few samples; empty if all have enough."""
    names = [f"{each.label} ({text.count(each.samples)})" for each in counts if each.few]
    if not names:
        return ""
    return f"Fewer than {least()} warp samples, too few to tell where warps stall: {text.listed(names)}."
