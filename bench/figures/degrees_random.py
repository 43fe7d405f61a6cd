"""What is said of every launch of random kernels, next to some launches: ``python3 bench/figures/degrees_random.py``.

The kernels are those of bench/figures/random_kernels.py with three parameters more, which indices, conditions and loops
use: lanes at a distance that a parameter decides, XORs with one, steps that are halved, rows that some lanes skip. Each
is compiled here, its accesses are judged from the code alone, and every request that the emulator makes in launches
with different parameters has to have a degree that was said, in the case of its parameters too. Prints what
contradicts, how many accesses were judged, and how often the degrees that were said are met. Ends with 1 if one
contradicts. ``--seed N --count N``; ``--show SEED`` prints a kernel.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.random_kernels import IN, OUT, RandomKernel, Writer, compiled, given, source
from ncu_swizzle.base.degrees import AccessDegree
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.degrees import degrees
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.smem.wavefronts import wavefronts

PARAMETERS = ("ld", "n", "k")
FIRST = 16  # the byte of the first of these, behind two pointers
LAUNCHES = ((1, 5, 0), (32, 64, 3), (33, 17, 8), (36, 1000, 31), (8, 33, 5), (0, 0, 16), (64, 7, 1))
CASE = re.compile(r"the parameter at byte (0x[0-9a-f]+) is (.*)")


class ParameterWriter(Writer):
    """Writes kernels with parameters."""

    def kernel(self) -> RandomKernel:
        kernel = super().kernel()
        text = kernel.text.replace("int* out)", "int* out, int ld, int n, int k)")
        return RandomKernel(kernel.name, text, kernel.grid, kernel.block)

    def statement(self, depth: int) -> None:
        if depth < 3 and self.chance.random() < 0.2:
            counter = f"i{self.names}"
            self.names += 1
            head = self.chance.choice((
                f"for (int {counter} = 64; {counter} > (k & 7); {counter} >>= 1) {{",
                f"for (int {counter} = 1; {counter} < 64; {counter} *= 2) {{",
                f"for (int {counter} = t; {counter} < (n & 511); {counter} += blockDim.x) {{",
                f"for (int {counter} = k; {counter} < k + (n & 7); ++{counter}) {{",
            ))  # fmt: skip
            self.loops.append(counter)
            self.add(head)
            self.nested(counter, depth)
            return
        super().statement(depth)

    def condition(self) -> str:
        if self.chance.random() < 0.4:
            return self.chance.choice(("t < n", "lane < k", "n > 30", "k & 1", "blockIdx.x + k > 3", "in[k & 15] & 4"))
        return super().condition()

    def term(self, depth: int) -> str:
        if self.chance.random() < 0.45:
            return self.chance.choice((
                "t * ld", "lane * ld + k", "(t / 8) * ld + t % 8", "t ^ k", "(t ^ (n >> 2)) + ld", "t + in[k & 63] * 4",
                "(t & (ld - 1)) * 2 + t", "t * 4 + n * 32", "((t >> 3) ^ (k & 7)) * 8 + (t & 7)",
                "table[n & 255] + t * 2",
                *(f"t * {counter}" for counter in self.loops), *(f"(t ^ {counter}) * 2" for counter in self.loops),
                "t * 33 + blockIdx.x * ld", "(t + n) / 2", "(t + k * 256) >> 1", "min(t, n)", "t * (n | 1)",
            ))  # fmt: skip
        return super().term(depth)


def launched(cubin: Cubin, text: str, kernel: RandomKernel, values: tuple[int, ...], grid: int) -> Counts:
    """Emulate one launch."""
    code = emulated_launch.code(cubin, kernel.name, text)
    parameters = np.array([IN, OUT], np.uint64).tobytes() + np.array(values, np.int32).tobytes()
    launch = Launch(
        grid=(grid, 1, 1), block=(kernel.block, 1, 1), parameters=parameters,
        memory={IN: given().tobytes(), OUT: bytes(1 << 16)},
    )  # fmt: skip
    return emulate(code, launch, timeout_s=20)


def requests(counts: Counts, offset: int) -> Iterator[Fraction]:
    """Yield the degree of each different request of an access."""
    made = counts.requests.get(offset)
    if made is not None:
        actual = wavefronts(made.op, made.addresses, None if "matrix" in made.op else made.active, made.source)
        for known, count, ideal in zip(actual.known, actual.actual, actual.ideal, strict=True):
            if known and ideal:
                yield Fraction(int(count), int(ideal))


def holds(condition: str, value: int) -> bool:
    """Return whether a number is what a case says."""
    if match := re.fullmatch(r"a multiple of (\d+)(?:, and not of (\d+))?", condition):
        return value % int(match[1]) == 0 and (match[2] is None or value % int(match[2]) != 0)
    if match := re.fullmatch(r"([\d, ]+)(, …)? modulo (\d+)", condition):
        return match[2] is None and value % int(match[3]) in map(int, match[1].split(", "))
    return condition == "any number" or (condition == "odd" and value % 2 == 1)


def said(access: AccessDegree, values: tuple[int, ...]) -> tuple[Fraction, Fraction] | None:
    """Return the least and the greatest degree that is said of an access in a launch with these parameters."""
    for case in access.cases:
        match = CASE.fullmatch(case.when)
        place = (int(match[1], 16) - FIRST) // 4 if match else -1
        if match and 0 <= place < len(values) and holds(match[2], values[place]):
            return case.least, case.most
    return None if access.least is None or access.most is None else (access.least, access.most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first kernel; the next ones follow")
    parser.add_argument("--count", type=int, default=20, help="of kernels")
    parser.add_argument("--show", type=int, metavar="SEED", help="print a kernel")
    arguments = parser.parse_args()
    if arguments.show is not None:
        print(ParameterWriter(arguments.show).kernel().text)
        return
    kernels = [ParameterWriter(seed).kernel() for seed in range(arguments.seed, arguments.seed + arguments.count)]
    text = source(kernels).replace("(in, out);", "(in, out, 1, 1, 1);")
    verdicts, wrong, made, refused = Counter[str](), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        cubin = Cubin(compiled(text, Path(name), "-cubin"), "random.cubin")
    sass = Toolchain().disassemble(cubin.data, cubin.name)
    for kernel in kernels:
        judged = degrees(emulated_launch.code(cubin, kernel.name, sass), (kernel.block, 1, 1))
        verdicts.update(access.verdict for access in judged.accesses)
        accesses = {access.offset: access for access in judged.accesses}
        for values in LAUNCHES:
            try:
                counts = launched(cubin, sass, kernel, values, kernel.grid)
            except NcuSwizzleError:  # a loop without an end, an address that is not valid
                refused += 1
                continue
            for offset in counts.requests:
                access = accesses.get(offset)
                ranged = (None, None) if access is None else said(access, values) or (None, None)
                for degree in requests(counts, offset):
                    made += 1
                    if access is None or (ranged[0] is not None and not ranged[0] <= degree <= ranged[1]):
                        wrong += 1
                        what = access.sass if access else "not seen"
                        print(f"{kernel.name} {values} {offset:#x} {what}: {degree}, said {ranged}", flush=True)
    said_of = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    print(f"{len(kernels)} kernels: {said_of}; {made} requests, {wrong} contradict; {refused} launches failed")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
