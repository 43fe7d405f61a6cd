"""What each stress kernel should write, one function each, after the kernels' own arithmetic: 32 bits that wrap.

A function is called with what its parameters are named after: the kernel's buffers and scalars, its problem's sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def words(values: Any) -> Array:
    """Return integers as unsigned ones of 32 bits."""
    return np.asarray(values).astype(np.int64) & 0xFFFFFFFF


def blocks(values: Any, count: int) -> Array:
    """Return what every block writes alike, one after the other."""
    return np.tile(words(values), count)


def if_else(data: Array) -> Array:
    s, t = words(data), np.arange(128)
    x = np.where(t % 2, s[t * 32 % 1024] + 1 + s[t * 8 % 1024], s[t * 3])
    x = np.where(t < 40, x + s[t * 2], np.where(t < 77, x + s[t * 16 % 1024], words(x) ^ s[1023 - t]))
    return blocks(x, 4)


def switch_dense(data: Array) -> Array:
    s = words(data)
    return words([_case(s, t, (t + block) % 12) for block in range(3) for t in range(96)])


def _case(s: Array, t: int, case: int) -> int:
    x = 7
    if case == 2:
        x -= int(s[t * 3])
    if case in (2, 3):
        return x + int(s[t * 4]) * 3
    if case == 6:
        x ^= int(s[t * 8])
        return 2 * x
    simple = {
        0: lambda: x + int(s[t]), 1: lambda: x ^ int(s[t * 2]), 4: lambda: x * int(s[t * 5]),
        5: lambda: x + int(s[t * 6]) + int(s[t * 7]), 7: lambda: x + int(s[t * 9]), 8: lambda: x - int(s[t * 10]),
        9: lambda: x + int(s[t * 16]), 10: lambda: x * int(s[t * 20]), 11: lambda: x + int(s[2047 - t]),
    }  # fmt: skip
    return simple[case]()


def loops_and_breaks(data: Array) -> Array:
    s = words(data)
    return blocks([_loops(s, t) for t in range(64)], 2)


def _loops(s: Array, t: int) -> int:
    x = 0
    for i in range(8):
        if i == t % 7 + 1:
            break
        if (t + i) % 3 == 0:
            continue
        for j in range(i, 6):
            x += int(s[(t * (i + 1) + j * 32) % 1024])
            if j == (t & 3) + 2:
                break
        x ^= int(s[(t + i * 64) % 1024])
    return x


def early_return(data: Array, n: int) -> Array:
    t = np.arange(n) % 128
    d = words(data)
    s = np.concatenate([d[:128], d[128:] + 1])
    x = s[t * 2]
    return words(np.where(t % 32 == 9, x, 2 * x + 5 + s[255 - t]))


def shapes(data: Array, x: int, y: int, z: int) -> Array:
    s, size = words(data), x * y * z
    t = np.arange(size)
    tx, ty, tz = t % x, t // x % y, t // (x * y)
    value = s[tx * 37 % 4096] + s[(ty * 256 + tz * 32 + tx) % 4096]
    grids = {(33, 3, 1): 4, (7, 5, 3): 4, (1, 1, 1): 3, (1000, 1, 1): 2}
    return blocks(value + value[size - 1 - t], grids[x, y, z])


def trip_counts(data: Array, most: int) -> Array:
    s = words(data)
    return words([_trips(s, t, block, int(most)) for block in range(3) for t in range(96)])


def _trips(s: Array, t: int, block: int, most: int) -> int:
    x = t
    for i in range((t & 7) + block):
        for j in range(t // 32, most - i):
            x = (x * 5 + int(s[(t * 2 + i * 96 + j * 33) & 1023])) & 0xFFFFFFFF
    return x


def shuffles(data: Array) -> Array:
    s, t = words(data), np.arange(64)
    warp, lane = t // 32 * 32, t % 32
    above = np.where(lane < 3, t, t - 3)
    below = np.where(lane % 16 + 7 < 16, t + 7, t)
    source = warp + (t * 11 & 31)
    x = s[(t ^ 5) * 3 & 1023] + 3 * s[above * above & 1023] + 5 * s[below * 16 & 1023] + 7 * s[source * 8 + 1 & 1023]
    return blocks(x + 1, 2)


def votes() -> Array:
    return words([value for block in range(4) for warp in range(4) for value in _votes(block, warp)])


def _votes(block: int, warp: int) -> list[int]:
    chosen = [lane for lane in range(32) if ((warp * 32 + lane) * 7 + block) % 3 == 0]
    own = {place * 4: warp * 32 + lane + 1 for place, lane in enumerate(chosen)}
    first = own.get((chosen[0] + 1) * 4, 0) if warp == 2 else 0  # the warp of thread 70
    # The words 48 and 56, one of which is read last, are never written.
    return [own.get(lane * 4 % 128, 0) + first for lane in range(32)]


def structs(data: Array) -> Array:
    t = np.arange(128)
    other = t // 64 * 64 + 63 - t % 64
    d = words(data)[other]
    x = d + other + 2 * other
    for i in range(3):
        x = 3 * x + d + i
    return blocks(x, 2)


def templates(data: Array) -> Array:
    return blocks(words(data).reshape(16, 32).T.ravel(), 2)


def vec2(data: Array) -> Array:
    s, t = words(data).reshape(64, 2), np.arange(64)
    x, y = s[63 - t], s[t >> 1]
    both = np.stack([x[:, 0] + y[:, 0], x[:, 1] ^ y[:, 1]], axis=1)
    return blocks(np.where((t % 4 != 1)[:, None], both, x).ravel(), 2)


def vec4(data: Array) -> Array:
    s, t = words(data).reshape(64, 4), np.arange(64)
    x, y, z = s[t ^ 6], s[t & ~1], s[t * 3 % 64]
    both = np.stack([x[:, 0] + y[:, 0], x[:, 1] ^ y[:, 1], x[:, 2] + y[:, 2], x[:, 3] + y[:, 3]], axis=1)
    x = np.where((t % 8 < 5)[:, None], both, x)
    x[:, 0] = np.where((t != 31) & (t != 50), words(x[:, 0]) ^ z[:, 3], x[:, 0])
    return blocks(x.ravel(), 2)


def two(data: Array) -> Array:
    return blocks(words(data)[np.arange(64) * 17 % 1024] + 1, 2)


def dynamic_and_static(data: Array) -> Array:
    t = np.arange(128)
    return blocks(2 * words(data)[127 - t] + 1 + (t ^ 3), 2)


def local_array(data: Array, turn: int) -> Array:
    s = words(data)
    found = []
    for t in range(64):
        place = [0] * 8
        for i in range(8):
            place[(i * 3 + t) & 7] = (t * 9 + i * 77) & 1023
        x = 0
        for i in range(4):
            x = 3 * x + int(s[place[(int(turn) * i + t // 2) & 7]])
        found.append(x)
    return blocks(found, 2)


def constant_table(data: Array) -> Array:
    s, t = words(data), np.arange(64)
    places = t % 4 * 32 + t // 4
    steps = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5])
    return blocks(s[places] + s[places[t * 5 & 63] * 8] + s[steps[t & 31] * 32 + t % 32], 2)


def division(data: Array, width: int, step: int, far: int) -> Array:
    s = words(data)
    width, step, far = int(width), int(step), int(far)
    found = []
    for t in range(96):
        back = abs(t - 50) // width * (1 if t >= 50 else -1)  # C rounds towards zero
        rest = t - 50 - back * width
        u, r = (t * 1000003 & 0xFFFFFFFF) // step, (t * 2654435761 & 0xFFFFFFFF) % step
        q = (far + t * 12345678901) // (far // 1000 + t)
        places = (t // width * 32 + t % width, (back + 64) * 16 + rest + 100, u & 2047, r * 3 & 2047, q & 2047)
        found.append(sum(int(s[place]) for place in places))
    return blocks(found, 2)


def wide_index(data: Array, seed: int) -> Array:
    s, mask = words(data), (1 << 64) - 1
    found = []
    for i in range(192):
        z = (int(seed) + i * 0x9E3779B97F4A7C15) & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        z ^= z >> 31
        signed = z - (1 << 64) if z >> 63 else z
        x = int(s[z & 1023]) + int(s[z >> 32 & 1023]) + int(s[abs(signed >> 41) % 1021])
        if z > 1 << 63:
            x += int(s[z.bit_count() * 16])
        found.append(x)
    return words(found)


def index_array(where: Array, data: Array, lengths: Array) -> Array:
    s, t = words(data), np.arange(64)
    found = []
    for length in lengths:
        x = np.zeros(64, np.int64)
        for i in range(length):
            x = 3 * x + s[where[i * 64 + t] * 8 + i]
        found.append(x)
    return words(np.concatenate(found))


def shared_table(data: Array) -> Array:
    s, t = words(data), np.arange(128)
    table = np.concatenate([t * 4 + t // 64 & 1023, 1023 - t * 8 & 1023])
    return blocks(s[table[t ^ 1]] + s[table[128 + (t * 5 & 127)]] + 127 - t, 2)


def _matrices(rows: Array, transposed: bool) -> Array:
    """Return the registers, (matrices, 32), that ldmatrix loads of rows, (8 per matrix, 4) words."""
    lane = np.arange(32)
    halves = np.stack([rows & 0xFFFF, rows >> 16], axis=2).reshape(-1, 8, 8)  # matrix, row, column
    if transposed:
        halves = halves.transpose(0, 2, 1)
    return words(halves[:, lane // 4, lane % 4 * 2] | halves[:, lane // 4, lane % 4 * 2 + 1] << 16)


def ldmatrix_all(data: Array, pitch: int) -> Array:
    s, lane = words(data).reshape(-1, 4), np.arange(32)
    found = []
    for warp in range(2):
        x = _matrices(s[lane * pitch + warp][:8], False)[0]
        for places, matrices, transposed in (
            (lane * 8 + warp, 2, False),
            ((lane ^ warp) * 4, 2, True),
            (lane * 8 + (lane & 7), 4, False),
            (lane * pitch, 4, True),
        ):
            registers = _matrices(s[places][: 8 * matrices], transposed)
            x = 3 * x + sum(factor * register for factor, register in zip((1, 5, 7, 11), registers, strict=False))
            x = words(x)
        found.append(x)
    return blocks(np.concatenate(found), 2)


def stmatrix_all(data: Array, pitch: int) -> Array:
    lane = np.arange(32)
    found = []
    for warp in range(2):
        own = np.zeros(2048, np.int64)
        a, b = words(data)[warp * 32 + lane], words(data)[64 + warp * 32 + lane]
        for start, stride, registers, transposed in (
            (0, 4, [a], False),
            (256, int(pitch), [a, b], True),
            (1024, 32, [a, b, words(a + b), a ^ b], False),
        ):
            for number, register in enumerate(registers):
                halves = np.zeros((8, 8), np.int64)
                halves[lane // 4, lane % 4 * 2] = register & 0xFFFF
                halves[lane // 4, lane % 4 * 2 + 1] = register >> 16
                for row, line in enumerate(halves.T if transposed else halves):
                    place = start + (8 * number + row) * stride
                    own[place : place + 4] = line[::2] | line[1::2] << 16
        x = np.zeros(32, np.int64)
        for i in range(0, 2048, 32):
            x = words(x * 31 + own[i + lane])
        found.append(x)
    return blocks(np.concatenate(found), 2)


def cp_async_sizes(data: Array, rows: int) -> Array:
    d, t = words(data), np.arange(64)
    found = []
    for block in range(3):
        source = d[block * 64 :]
        chunk, word = t // 4, t % 4
        swizzled = chunk ^ (chunk >> 3 & 7)
        x = 4 * source[t] + 5 * source[(chunk ^ 3) * 4 + word] + 7 * source[swizzled * 4 + word]
        x = x + np.where(rows - t // 2 > 0, 9 * source[2 * t], 0) + np.where(rows - t > 20, 11 * source[t], 0)
        found.append(x + np.where(t % 3 > 0, 13 * source[t * 8 + 1], 0))
    return words(np.concatenate(found))


def atomics() -> Array:
    s = [0] * 128 + [1000] * 128
    for t in range(128):
        s[t // 3] += 1
        s[t * 2 % 64] += t
        s[64 + t % 9 * 4] = max(s[64 + t % 9 * 4], t * 5)
        s[128 + (t & 15)] = min(s[128 + (t & 15)], 500 - t)
        s[160 + t % 2 * 32] |= 1 << (t & 7)
        s[225] &= ~(1 << (t & 3))
        if t % 5 == 2:
            s[230 + t % 4] ^= t
            s[240] -= 3
    return blocks(s, 2)


def atomics_spin() -> Array:
    return blocks(8 + 60 + np.arange(64) % 4 + 63, 2)


def generic_pointers(data: Array, which: int) -> tuple[slice, Array]:
    d, t = words(data), np.arange(128)
    s = np.concatenate([d[255 - t], d[127 - t]])
    place, after = t * 9 & 255, (t + 1) * 9 & 255
    x = (s if which else d)[place] + np.where(t < 64, s[place], d[place]) + np.where(t % 2, s[after], d[after])
    return slice(0, 256), blocks(x + (x if which else s)[t ^ 17], 2)


def noinline_calls(data: Array) -> Array:
    s, t = words(data), np.arange(64)

    def both(t: Array) -> Array:
        return s[t * 2 & 511] + np.where(t & 4, s[(t + 1) * 8 & 511], 0)

    return blocks(np.where(t % 3 == 0, s[t * 5 & 511], both(t) + 1) + both(63 - t), 2)


def vote_loop(data: Array) -> Array:
    s = words(data)
    found = []
    for i in range(256):
        n, x = i % 64 * 3 + i // 64 + 1, 0
        while n != 1:
            x += int(s[n & 1023])
            n = n * 3 + 1 if n % 2 else n // 2
        found.append(x)
    return words(found)


def cooperative_tiles(data: Array) -> Array:
    s, t = words(data), np.arange(64)
    rank, tile = t % 8, t // 8
    x = s[(tile * 8 + rank * 3 % 8) * 8 & 1023] + s[tile * 32 + rank] + np.where(tile % 2 == 0, s[rank * 64 & 1023], 0)
    total = np.repeat(x.reshape(8, 8).sum(axis=1), 8)
    ballots = [sum(1 << lane for lane in range(32) if (warp * 32 + lane) % 7 == 0) for warp in range(2)]
    return blocks(total + s[np.repeat(ballots, 32) & 1023], 2)


def warp_roles(data: Array, steps: int) -> Array:
    d, lane = words(data), np.arange(32)
    found = []
    for warp in range(1, 4):
        place = warp * 32 + lane
        x = np.zeros(32, np.int64)
        for i in range(steps):
            x = 3 * x + d[i * 256 + lane * 8 + warp] + d[i * 256 + (place ^ (place >> 3 & 3))]
        found.append(x)
    return blocks(np.concatenate(found), 2)


def wmma(a: Array, b: Array) -> Array:
    left = a.astype(np.float64).reshape(16, 16)
    products = [left @ part.T for part in b.astype(np.float64).reshape(2, 16, 16)]
    return np.tile(np.concatenate([product.ravel() for product in products]), 2)


def triangular(data: Array) -> Array:
    d = words(data).reshape(4, 32, 32)
    x, y = np.arange(32), np.arange(4)[:, None]
    found = []
    for block in range(4):
        total = np.zeros((4, 32), np.int64)
        for tile in range(block + 1):
            for row in range(0, 32, 4):
                total += np.where((tile < block) | (x <= row + y), d[tile][x, row + y], 0)
        found.append(total.ravel())
    return words(np.concatenate(found))


def reduction(data: Array) -> Array:
    total = words(data).reshape(3, 256).sum(axis=1)
    return words(total) ^ words(2 * total)


def scan(data: Array) -> Array:
    d = words(data).reshape(2, 256)
    return words((np.cumsum(d, axis=1) - d).ravel())


def histogram(data: Array, n: int) -> Array:
    mine = np.arange(n) // 128 % 2
    return np.concatenate([np.bincount(data[mine == block] & 63, minlength=64) for block in range(2)])


def narrow_types(data: Array) -> Array:
    d, t = words(data), np.arange(64)
    bytes_ = np.concatenate([d & 255, (d >> 8 & 255)[::-1]])
    halves = d & 0xFFFF
    x = bytes_[t] + bytes_[t * 32] + bytes_[t * 5 + 3]
    x = 3 * x + halves[t * 2 + 1] + halves[t * 64 + 1 & 1023]
    x = 3 * x + bytes_[2047 - t * 4].astype(np.uint8).astype(np.int8)
    return blocks(x + (x[63 - t] & 0xFFFF) + (x[63 - t] & 255), 2)


def bitonic(data: Array) -> Array:
    return np.concatenate([np.sort(words(data) ^ block) for block in range(2)])


def halo(data: Array, width: int, height: int) -> Array:
    s = np.pad(words(data).reshape(height, width), 1)
    around = s[1:-1, :-2] + s[1:-1, 2:] + s[:-2, 1:-1] + s[2:, 1:-1]
    return words((4 * s[1:-1, 1:-1] - around).ravel())


def sgemm_edges(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64)


def rotate(data: Array, rows: int, columns: int) -> Array:
    return blocks(words(data).reshape(rows, columns).T.ravel(), 2)
