"""The excessive wavefronts of both versions: of the arrays whose elements move, and of all accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ncu_swizzle.engines.emulation import Emulated
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Excess


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A shared array whose elements have new places: its bytes in each version, as the emulator addresses them.

    `least` are the excessive wavefronts of the launch that the mapping leaves, `reason` says why.
    """

    name: str
    before: range
    after: range
    least: int = 0
    reason: str = ""


_claim = partial(Claim, about=About.EXCESS)


def excess_of(emulated: Emulated, spans: Mapping[str, range]) -> Excess:
    """Return the excess of a launch: in all, and that of the instructions that access some bytes, by name."""
    touching: dict[str, list[int | None]] = {name: [] for name in spans}
    accesses = list(emulated.profile.shared())
    for access in accesses:
        requests = emulated.counts.requests.get(access.pc)
        for name, span in spans.items():
            if requests is None:  # what it accesses is not known
                # It may be to any of the arrays: if its excess is unknown too, so is that of each.
                within = access.excessive is None
            else:
                inside = (requests.addresses >= span.start) & (requests.addresses < span.stop)
                within = bool((requests.used & inside).any())
            if within:
                touching[name].append(access.excessive)
    return Excess(
        {name: _total(counts) for name, counts in touching.items()},
        _total([access.excessive for access in accesses]),
        _total([access.wavefronts for access in accesses]),
    )


def _total(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count for count in counts if count is not None)


def excess_claim(moved: Sequence[Moved], old: Excess, new: Excess) -> Claim:
    """Judge whether the moved arrays have as little excess as promised, and all accesses together take no more.

    An index that is no longer a constant keeps the compiler from holding elements in registers.
    """
    if old.wavefronts is not None and new.wavefronts is not None and new.wavefronts > old.wavefronts:
        more = new.wavefronts - old.wavefronts
        reason = f"all accesses together take {new.wavefronts:,} wavefronts, {more:,} more than before"
        return _claim(state=ClaimState.FAILED, reason=reason)
    for array in moved:
        left, before = new.moved[array.name], old.moved[array.name]
        if left is None:
            reason = f"the wavefronts of some accesses to {array.name} are unknown"
            return _claim(state=ClaimState.UNKNOWN, reason=reason)
        if left > array.least and (before is None or left >= before):
            reason = f"{array.name} still has {left:,} excessive wavefronts in the blocks that ran"
            return _claim(state=ClaimState.FAILED, reason=reason)
    names = ", ".join(
        f"{array.name} from {old.moved[array.name] or 0:,} to {new.moved[array.name]:,} excessive wavefronts"
        f"{f' ({array.reason})' if new.moved[array.name] and array.reason else ''}"
        for array in moved
    )
    taken = "unknown" if new.wavefronts is None else f"{new.wavefronts:,} for {old.wavefronts:,}"
    return _claim(state=ClaimState.HELD, reason=f"{names}; wavefronts of all accesses: {taken}")
