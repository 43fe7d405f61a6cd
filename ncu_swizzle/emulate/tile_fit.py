"""The value that would make an operand fit, found by trying: one field of the descriptor, or the way it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ncu_swizzle.smem.descriptors import CHUNK, GROUP, MOST_BASE_OFFSET, SPANS, Descriptor
from ncu_swizzle.smem.wgmma import K_BYTES

Trial = Callable[[Descriptor, bool], bool]  # whether a descriptor fits, read MN-major or not
OFFSETS = tuple(CHUNK << shift for shift in range(12))  # tried as LBO and SBO
_NEAR, _FAR = range(CHUNK, 64 * CHUNK + 1, CHUNK), range(3 * 512, 32 * 1024 + 1, 512)
STARTS = tuple(sign * step for step in (*_NEAR, *_FAR) for sign in (-1, 1))  # bytes from where it starts


def where_fits(given: Descriptor, mn_major: bool, works: Trial) -> str:
    """Return in words where a tile would have to start; empty if nothing that was tried fits."""
    return next((words for words, tried, major in _starts(given, mn_major) if works(tried, major)), "")


def what_fits(given: Descriptor, mn_major: bool, sixteen_bits: bool, works: Trial) -> str:
    """Return in words what would fit; empty if nothing that was tried does."""
    return next((words for words, tried, major in _trials(given, mn_major, sixteen_bits) if works(tried, major)), "")


def _trials(given: Descriptor, mn_major: bool, sixteen_bits: bool) -> Iterator[tuple[str, Descriptor, bool]]:
    """Yield what to try, the likeliest first."""
    for offset in range(MOST_BASE_OFFSET + 1):
        yield f"a base offset of {offset} would fit", replace(given, base_offset=offset), mn_major
    for mode, span in enumerate(SPANS):
        named = f"the {span}-byte mode" if mode else "the mode without swizzle"
        yield f"{named} would fit", replace(given, mode=mode), mn_major
        swizzled = replace(given, mode=mode, stride=GROUP * span)
        words = f"an SBO of {GROUP * span}" if mode == given.mode else f"{named} with an SBO of {GROUP * span}"
        yield f"{words} would fit", swizzled, mn_major
    for stride in OFFSETS:
        yield f"an SBO of {stride} would fit", replace(given, stride=stride), mn_major
    for leading in OFFSETS:
        yield f"an LBO of {leading} would fit", replace(given, leading=leading), mn_major
    yield from _starts(given, mn_major)
    if sixteen_bits:
        yield from _other_major(given, mn_major)
    for stride in OFFSETS:
        for leading in OFFSETS:
            words = f"an LBO of {leading} and an SBO of {stride} would fit"
            yield words, replace(given, leading=leading, stride=stride), mn_major


def _starts(given: Descriptor, mn_major: bool) -> Iterator[tuple[str, Descriptor, bool]]:
    for by in STARTS:
        if given.start + by >= 0:
            words = f"a start {abs(by)} bytes {'further' if by > 0 else 'earlier'} would fit"
            yield words, given.moved(given.start + by), mn_major


def _other_major(given: Descriptor, mn_major: bool) -> Iterator[tuple[str, Descriptor, bool]]:
    """Yield the same tile read the other way."""
    is_major, read_as = ("K-major", "MN-major") if mn_major else ("MN-major", "K-major")
    words = f"it is {is_major} and read {read_as}: the other transpose flag would fit"
    yield words, given, not mn_major
    for stride in OFFSETS:
        for leading in OFFSETS if not mn_major or given.span < K_BYTES else OFFSETS[:1]:
            more = f", with an LBO of {leading} and an SBO of {stride}"
            yield words + more, replace(given, leading=leading, stride=stride), not mn_major
