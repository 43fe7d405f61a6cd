"""Memory contents: loads and stores of shared, local and global memory, each byte known or unknown.

A view has G warps of 32 lanes; shared memory is (B, bytes).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ncu_swizzle.emulate.counts import Buffer
from ncu_swizzle.emulate.dependence import Tag, arbitrary_tag
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.tickets import check_any_store, check_store, lanes_loading_counter
from ncu_swizzle.emulate.values import Bits, Value, dependent_tag, known_in, unknown
from ncu_swizzle.smem.operations import WORD, Bools, Ints

MOST_DRAWN = 256 << 20  # bytes of buffers that are filled to see whether stores store the same
UNITS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32}
KNOWN: dict[Any, Any] = {unit: unit(0x01010101 & np.iinfo(unit).max) for unit in UNITS.values()}  # in all of its bytes


def drawn_memory(buffers: Sequence[Buffer], known: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return the contents of buffers, by address; unknown contents are drawn unless they are too large."""
    if sum(buffer.size for buffer in buffers) > MOST_DRAWN:
        return dict(known)
    rng = np.random.default_rng(0)
    # Sixteen bits at a time that are between 0.5 and 1 as a half, and small as a float.
    return {
        each.address: rng.integers(0x3800, 0x3C00, -(-each.size // 2), np.uint16).tobytes()
        for each in buffers
        if not any(each.address <= address < each.address + each.size for address in known)
    } | dict(known)


# ---------------------------------------------------------------------------------------------- shared memory


def bytes_at(m: Machine, address: Value, selected: Bools, size: int) -> tuple[Bits, Bits, Bools]:
    """Return block and byte, (G, 32, size), that the lanes access, and which bytes are inside shared memory."""
    at = (np.broadcast_to(address.bits, selected.shape).astype(np.int64) & 0xFFFFFF)[..., None] + np.arange(size)
    inside = selected[..., None] & (at < m.shared.shape[1])
    block = np.broadcast_to(m.view_blocks()[:, None, None], at.shape)
    return block, np.where(inside, at, 0), inside


def _units_at(m: Machine, address: Value, selected: Bools, size: int) -> tuple[Ints, Bools, Any]:
    """Return the units that the lanes access, (units, G, 32), counted from the first block's first one; which of them
    are inside shared memory; and a unit's type.

    An access to a known address is aligned, or the log would have raised: a unit is a word, or all of a smaller access.
    """
    unit = min(size, 4)
    per_block = m.shared.shape[1] // unit
    first = np.broadcast_to(address.bits & np.uint32(0xFFFFFF), selected.shape) >> np.uint32(unit // 2)
    at = first.astype(np.int64) + np.arange(size // unit)[:, None, None]
    inside = selected & (at < per_block)
    at = at + (m.view_blocks() * per_block)[:, None]
    return at if inside.all() else np.where(inside, at, 0), inside, UNITS[unit]


def load_shared(m: Machine, address: Value, selected: Bools, size: int) -> list[Value]:
    """Return the contents at the lanes' addresses, one value per word."""
    tag = _shared_tag(m, address, selected, size)
    origin = _first(m.unordered, m.shared_origin) if known_in(address, selected) else address.origin
    origin = m.now if origin is None else origin
    if not m.shared_written or m.unordered is not None:
        return [Value(np.zeros((1, 32), np.uint32), False, origin, tag)] * max(1, size // 4)
    at, inside, unit = _units_at(m, address, selected, size)
    data = m.shared.view(unit).take(at).astype(np.uint32, copy=False)
    # (words, G, 32). `shared_known` has 1 in each byte that is known.
    all_bytes = m.shared_known.view(unit).take(at) == KNOWN[unit]
    known = all_bytes & inside & np.asarray(address.known)
    if known.all():
        return [Value(word, True, origin, tag) for word in data]
    every = (known | ~selected).all(axis=(1, 2)).tolist()
    some = (known & selected).any(axis=(1, 2)).tolist()
    return [Value(data[word], every[word] or (some[word] and known[word]), origin, tag) for word in range(len(at))]


def _first(*origins: int | None) -> int | None:
    return next((origin for origin in origins if origin is not None), None)


def store_shared(m: Machine, address: Value, selected: Bools, values: Sequence[Value], size: int) -> None:
    """Write the lanes' values to their addresses; if two lanes write the same address, the higher lane wins."""
    at, inside, unit = _units_at(m, address, selected, size)
    contents, sure = m.shared.view(unit).reshape(-1), m.shared_known.view(unit).reshape(-1)
    alone = _word_of_one_lane(m, address, selected, size)
    if alone is None:
        share_tags(m)
    for word, value in enumerate(values[: len(at)]):
        m.shared_written |= bool(np.any(value.known))
        if m.shared_written:
            here = inside[word]
            where = at[word][here]
            known = np.broadcast_to(np.asarray(value.known), selected.shape)[here]
            # Lanes are in ascending order, and NumPy keeps the last of several writes to one element: the highest
            # lane's.
            contents[where] = np.broadcast_to(value.bits, selected.shape)[here].astype(unit)
            sure[where] = np.where(known, KNOWN[unit], unit(0))
        if value.known is not True:
            m.shared_origin = value.origin
        if alone is None:
            m.shared_tag = arbitrary_tag(m.shared_tag, value.tag, address.tag)
        else:
            tags = m.shared_tags.setdefault(alone, [m.shared_tag] * len(m.blocks))
            for here in m.view_blocks()[selected.any(axis=1)].tolist():
                tags[here] = value.tag


def _shared_tag(m: Machine, address: Value, selected: Bools, size: int) -> Tag | None:
    """Return the tag of what the lanes load."""
    if address.tag is None and m.shared_tags and size == WORD:
        words = np.unique(np.broadcast_to(address.bits, selected.shape)[selected] & np.uint32(0xFFFFFF)).tolist()
        blocks = np.unique(m.view_blocks()[selected.any(axis=1)]).tolist()
        if all(word in m.shared_tags for word in words):
            tags = {m.shared_tags[int(word)][int(block)] for word in words for block in blocks}
            if len(tags) == 1:
                return tags.pop()
    return arbitrary_tag(m.shared_tag, address.tag, *itertools.chain.from_iterable(m.shared_tags.values()))


def _word_of_one_lane(m: Machine, address: Value, selected: Bools, size: int) -> int | None:
    """Return the word that one lane of each block writes, the same in all blocks; None if there is no such word."""
    if size != WORD or address.tag is not None or not bool((selected.sum(axis=1) <= 1).all()):
        return None  # the ordinary store, before anything is sorted
    lanes = np.flatnonzero(selected.any(axis=1))
    alone = known_in(address, selected) and len(np.unique(m.view_blocks()[lanes])) == len(lanes)
    words = np.unique(np.broadcast_to(address.bits, selected.shape)[selected] & np.uint32(0xFFFFFF))
    return int(words[0]) if alone and len(words) == 1 else None


def share_tags(m: Machine) -> None:
    """Stop telling words apart: a store may be to any of them."""
    m.shared_tag = arbitrary_tag(m.shared_tag, *itertools.chain.from_iterable(m.shared_tags.values()))
    m.shared_tags.clear()


def forget_shared(m: Machine, address: Value, selected: Bools, size: int) -> None:
    if m.shared_written:
        block, at, inside = bytes_at(m, address, selected, size)
        m.shared_known[block[inside], at[inside]] = False
        if address.tag is not None:
            share_tags(m)
        m.shared_tag = arbitrary_tag(m.shared_tag, address.tag)  # elsewhere it forgets other bytes
    m.shared_origin = m.now


def write_known(m: Machine, blocks: Ints, start: int, content: Bits) -> None:
    """Write the same bytes in each of these blocks, if the contents of shared memory are tracked."""
    end = min(start + len(content), m.shared.shape[1])
    if start < end:
        m.shared[blocks, start:end], m.shared_known[blocks, start:end] = content[: end - start], True
        m.shared_written = True


def forget_range(m: Machine, blocks: Ints, start: int = 0, size: int | None = None) -> None:
    """Forget some bytes of these blocks' shared memory; all from `start` on if no size is given."""
    m.shared_known[blocks, start : None if size is None else start + size] = False
    m.shared_origin = m.now


def lose_shared(m: Machine, origin: int | None) -> None:
    """Forget all shared-memory contents of the view's blocks, after a store to an unknown address."""
    m.shared_known[np.unique(m.view_blocks())] = False
    m.shared_origin = m.now if origin is None else origin


def lose_everything(m: Machine, origin: int) -> None:
    """Forget shared-memory contents if they are tracked at all."""
    if m.shared.shape[1]:
        lose_shared(m, origin)


# ---------------------------------------------------------------------------------------------- local memory


def load_local(m: Machine, address: Value, selected: Bools, size: int) -> list[Value]:
    """Return the lanes' contents of local memory, one value per word; bytes and half words zero-extended."""
    count = max(1, size // 4)
    if not bool((np.asarray(address.known) | ~selected).all()):
        return [unknown(address.origin if address.origin is not None else m.now)] * count
    lanes = np.broadcast_to(address.bits, selected.shape)
    needed = np.uint8((1 << min(size, 4)) - 1) << (lanes & np.uint32(3)).astype(np.uint8)
    return [
        _local_word(m, address, lanes=lanes, selected=selected, needed=needed, k=k, size=size) for k in range(count)
    ]


def _local_word(m: Machine, address: Value, lanes: Bits, selected: Bools, needed: Bits, k: int, size: int) -> Value:
    at = lanes >> np.uint32(2)
    bits, known = np.zeros(selected.shape, np.uint32), np.zeros(selected.shape, bool)
    origin, tag = m.now if m.local_lost is None else m.local_lost, address.tag
    words = _distinct_words(at[selected])
    for number_of_word in words:
        word = m.local.get(int(number_of_word) + k)
        if word is None:
            continue
        here = selected & (at == number_of_word)
        sure = (word.known[m.view.warps] & needed) == needed
        np.copyto(bits, word.bits[m.view.warps], where=here)
        np.copyto(known, sure, where=here)
        origin = word.origin if bool((here & ~sure).any()) and word.origin is not None else origin
        tag = word.tag if len(words) == 1 and size >= 4 and address.tag is None else arbitrary_tag(tag, word.tag)
    if size < 4:
        bits = bits >> (np.uint32(8) * (lanes & np.uint32(3))) & np.uint32((1 << 8 * size) - 1)
    return Value(bits, True if bool((known | ~selected).all()) else known, origin, tag)


def _distinct_words(words: Bits) -> Bits:
    """Return the distinct numbers of words; mostly all threads access the same one."""
    return words[:1] if bool((words == words[:1]).all()) else np.unique(words)


def store_local(
    m: Machine, address: Value, selected: Bools, doubtful: Bools, values: Sequence[Value], size: int
) -> None:
    """Write to local memory; a store to an unknown address makes all of it unknown."""
    if doubtful.any() or not bool((np.asarray(address.known) | ~selected).all()):
        forget_local(m, m.now)
        return
    m.decide(address.tag)
    lanes = np.broadcast_to(address.bits, selected.shape)
    for number_of_word in _distinct_words(lanes[selected] >> np.uint32(2)):
        here = selected & (lanes >> np.uint32(2) == number_of_word)
        for k, value in enumerate(values):
            word = m.local_word(int(number_of_word) + k)
            again = m.view.whole and size >= 4 and bool((here | ~m.live).all())
            if address.tag is not None or not (again or word.tag == value.tag or not word.known.any()):
                word.tag = arbitrary_tag(word.tag, value.tag, address.tag)
            else:  # no lane holds anything else
                word.tag = value.tag
            word.write(m.view.warps, here, lanes & np.uint32(3), value, min(size, 4))


def forget_local(m: Machine, origin: int) -> None:
    """Forget all of local memory, after a store to an unknown address."""
    m.local.clear()
    m.local_lost = origin


# ---------------------------------------------------------------------------------------------- global memory


def load_global(m: Machine, address: Value, selected: Bools, size: int) -> list[Value]:
    """Return the contents of the known arrays at the lanes' addresses, one value per word."""
    if m.device is not None:
        executed: list[Value] = m.device.values(m, address, selected, size)
        return executed
    words = max(1, size // 4)
    at = np.broadcast_to(address.bits, selected.shape).astype(np.uint64)
    bits = np.zeros((words, *selected.shape), np.uint32)
    sure = np.zeros((words, *selected.shape), bool)
    reachable = selected & np.broadcast_to(np.asarray(address.known), selected.shape)
    blamed: int | None = None
    for base, content in m.memory.items():
        offset = (at - np.uint64(base)).view(np.int64)
        inside = reachable & (offset >= 0) & (offset + size <= len(content))
        if not inside.any():
            continue
        offset = np.where(inside, offset, 0)
        unit = 4 if size >= 4 and not (offset & 3).any() else 1
        data = np.frombuffer(content, UNITS[unit], len(content) // unit)
        first = offset // unit
        lost = m.overwritten.get(base)
        blamed = m.lost_by if lost is not None else blamed
        sure |= inside
        for k in range(0, size, unit):
            units = data[first + k // unit].astype(np.uint32, copy=False) << np.uint32(8 * (k % 4))
            np.bitwise_or(bits[k // 4], units, out=bits[k // 4], where=inside)
            if lost is not None:
                for byte in range(k, k + unit):
                    sure[k // 4] &= ~(inside & lost[offset + byte])
    if (others := lanes_loading_counter(m, at, size)) is not None:
        sure &= ~others
    tag = dependent_tag(address)
    origin = _first(blamed, m.now) if known_in(address, selected) else address.origin
    return [
        Value(bits[word], True if bool((sure[word] | ~selected).all()) else sure[word], origin, tag)
        for word in range(words)
    ]


def store_global(m: Machine, address: Value, selected: Bools, size: int) -> None:
    """Record which bytes of the known arrays are overwritten: all of them if the address is unknown."""
    check_store(m, address, selected, size)
    at = np.broadcast_to(address.bits, selected.shape).astype(np.uint64)
    unsure = bool((selected & ~np.broadcast_to(np.asarray(address.known), selected.shape)).any())
    for base, content in m.memory.items():
        offset = (at - np.uint64(base)).view(np.int64)
        inside = selected & (offset >= 0) & (offset + size <= len(content))
        if not unsure and not inside.any():
            continue
        lost = m.overwritten.setdefault(base, np.zeros(len(content), bool))
        if unsure or address.tag is not None:
            lost[:] = True
        if unsure:
            m.lost_by = _first(m.lost_by, address.origin)
        for k in range(size):
            lost[offset[inside] + k] = True


def lose_arrays(m: Machine) -> None:
    """Forget all arrays in global memory, after a store to an unknown address."""
    check_any_store(m)
    lose_tensors(m)


def lose_tensors(m: Machine) -> None:
    """Forget all arrays in global memory, after a copy into a tensor, which holds no ticket counter."""
    for base, content in m.memory.items():
        m.overwritten[base] = np.ones(len(content), bool)
