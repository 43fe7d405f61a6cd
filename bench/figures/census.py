"""Which instructions programs consist of, and how many of them are emulated, per architecture.

    python3 bench/figures/census.py                      the tables, of what tests/data/census.json.xz holds
    python3 bench/figures/census.py --add NAME FILE …    adds a sample of the files' kernels, disassembled, under NAME
    python3 bench/figures/census.py --unknown [ARCH …]   what is not known, with an example each

Files are libraries, wheels, cubins, or folders of them. The sample: per file and architecture, its cubins in an order
drawn with seed 1, each whole, or some of its functions if it is large, until SAMPLE bytes of machine code are read.
An instruction is emulated; or its result is unknown on purpose, as it is data or only the hardware knows it; or it is
not known. Programs that use what is not known are told so, and what depends on it is unknown.
"""

from __future__ import annotations

import argparse
import functools
import json
import lzma
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from bench.figures import tables
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.cubin.elf import ELF, DeviceImage, built_files_in, images, open_elf
from ncu_swizzle.emulate.code import Sass, parse_instruction
from ncu_swizzle.emulate.effects import is_control, results
from ncu_swizzle.emulate.execution import data_step
from ncu_swizzle.emulate.operands import MAKERS, compiled_step
from ncu_swizzle.kernels.toolchain import NVDISASM, Toolchain
from ncu_swizzle.smem.opcodes import Shared

KEPT = ROOT / "tests" / "data" / "census.json.xz"
SAMPLE = 256 << 10  # bytes of machine code per file and architecture
LARGE = 64 << 10  # of a cubin, of which some functions are taken then
SEED = 1
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*(?:/\* (0x[0-9a-f]{16}) \*/)?$")
SECOND = re.compile(r"^\s*/\* (0x[0-9a-f]{16}) \*/$")
TARGET = re.compile(r"\.target\s+(sm_\w+)")
# What does not decide how an instruction is understood: which register, which number.
PLAIN = (
    (re.compile(r"^@!?U?P\d\s+|\.reuse\b"), ""),
    (re.compile(r"\s+\(\*.*\*\)$"), ""),  # what a spill is for
    (re.compile(r"`\([^)]*\)"), "0x0"),
    (re.compile(r"\b(U?)R\d+\b"), r"\1R0"),
    (re.compile(r"\b(U?)P\d\b"), r"\1P0"),
    (re.compile(r"-?\b0x[0-9a-f]+\b"), "0x1"),
    (re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?\b"), "1"),
)
Found = dict[str, dict[str, Counter[str]]]  # by architecture and source: plain instructions


def main(arguments: list[str]) -> int:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--add", nargs="+", metavar=("NAME", "FILE"))
    parser.add_argument("--unknown", nargs="*", metavar="ARCH")
    parser.add_argument("--write", action="store_true", help="the tables to docs/emulator.md")
    parser.add_argument("--encodings", type=Path, help="with --add: one encoding per opcode of sm_90, appended to it")
    given = parser.parse_args(arguments)
    found = loaded()
    if given.add:
        name, *files = given.add
        for arch, counts in disassembled([Path(file) for file in files], given.encodings):
            found.setdefault(arch, {}).setdefault(name, Counter()).update(counts)
        save(found)
        return 0
    if given.unknown is not None:
        return show_unknown(found, given.unknown)
    text = "\n".join(described(found)) + "\n"
    if given.write:
        tables.replace(ROOT / "docs" / "emulator.md", "census", __file__, text)
    print(text, end="")
    return 0


# ------------------------------------------------------------------------------------------ what was found


def loaded() -> Found:
    """Return the counts that are kept."""
    if not KEPT.exists():
        return {}
    content = json.loads(lzma.decompress(KEPT.read_bytes()))
    texts = content["instructions"]
    return {
        arch: {name: Counter({texts[int(at)]: count for at, count in rows}) for name, rows in sources.items()}
        for arch, sources in content["counts"].items()
    }


def save(found: Found) -> None:
    """Keep the counts: instructions once, and then numbers."""
    texts = sorted({text for sources in found.values() for counts in sources.values() for text in counts})
    at = {text: number for number, text in enumerate(texts)}
    counts = {
        arch: {name: sorted((at[text], count) for text, count in rows.items()) for name, rows in sources.items()}
        for arch, sources in found.items()
    }
    content = json.dumps({"instructions": texts, "counts": counts}, separators=(",", ":"))
    KEPT.write_bytes(lzma.compress(content.encode(), preset=9))


class Support(StrEnum):
    """What the emulator makes of an instruction's results."""

    EMULATED = "emulated"
    ON_PURPOSE = "unknown on purpose"  # data, or what only the hardware knows
    NOT_KNOWN = "not known"


def support(sass: Sass) -> Support:
    """Return what becomes of an instruction whose results all matter."""
    instruction = parse_instruction(sass)
    row = instruction.row
    if not row.modelled:
        return Support.NOT_KNOWN
    if row.opaque or row.tile:
        return Support.ON_PURPOSE
    without_results = is_control(instruction) or instruction.never or row.name in MAKERS or not results(instruction)
    if without_results or row.shared is Shared.UNCOUNTED or compiled_step(instruction):
        return Support.EMULATED
    return Support.ON_PURPOSE if row.data else Support.NOT_KNOWN


def supported(texts: Iterable[str]) -> Mapping[str, Support]:
    return {text: support(Sass(0, text)) for text in texts}


@functools.cache
def executed(text: str) -> bool:
    """Return whether the data that an instruction writes are computed where all of a launch's are."""
    return data_step(parse_instruction(Sass(0, text)), 0) is not None


def number(arch: str) -> tuple[int, str]:
    return int(re.sub(r"\D", "", arch)), arch


def described(found: Found) -> Iterator[str]:
    """Yield the lines of two tables: architectures and what is known of their instructions, sources."""
    yield tables.head("architecture", "instructions", "opcodes", "with modifiers", *Support, "computed by `--check`")
    for arch in sorted(found, key=number):
        total = sum(found[arch].values(), Counter[str]())
        kinds, tally, mnemonics = supported(total), Counter[Support](), {mnemonic(text) for text in total}
        for text, count in total.items():
            tally[kinds[text]] += count
        computed = sum(count for text, count in total.items() if kinds[text] is Support.EMULATED or executed(text))
        shares = (f"{100 * part / total.total():.3f} %" for part in (*(tally[kind] for kind in Support), computed))
        opcodes = {each.split(".")[0] for each in mnemonics}
        yield tables.row(arch, f"{total.total():,}", len(opcodes), len(mnemonics), *shares)
    yield "\n" + tables.head("source", "architectures", "instructions")
    for name in sorted({name for sources in found.values() for name in sources}, key=str.lower):
        archs = [arch for arch in sorted(found, key=number) if name in found[arch]]
        total_of = sum(found[arch][name].total() for arch in archs)
        yield tables.row(name, ", ".join(arch.removeprefix("sm_") for arch in archs), f"{total_of:,}")


def show_unknown(found: Found, archs: list[str]) -> int:
    """Print what is not known, the most frequent first."""
    for arch in archs or sorted(found, key=number):
        total = sum(found[arch].values(), Counter[str]())
        kinds = supported(total)
        lacking = Counter({text: count for text, count in total.items() if kinds[text] is Support.NOT_KNOWN})
        for text, count in lacking.most_common():
            print(f"{arch:8} {count:>8,} {100 * count / total.total():.4f} %  {text}")
    return 0


def mnemonic(text: str) -> str:
    """Return the opcode with its modifiers."""
    return re.sub(r"^@!?U?P[0-9T]\s+", "", text).split()[0]


# ------------------------------------------------------------------------------------------ disassembling


def disassembled(files: Iterable[Path], encodings: Path | None) -> Iterator[tuple[str, Counter[str]]]:
    """Yield architecture and instructions of each sampled cubin."""
    seen = json.loads(encodings.read_text()) if encodings and encodings.exists() else {}
    program = str(Toolchain().find(NVDISASM))
    for file in files:
        for path in built_files_in(file) if file.is_dir() else [file]:
            for code, functions in sampled(path):
                yield from one(program, code, functions, seen if encodings else None)
    if encodings:
        encodings.write_text(json.dumps(seen))


def sampled(path: Path) -> Iterator[tuple[bytes, list[int]]]:
    """Yield the sampled cubins of a file, with the functions to take of a large one; none for the whole cubin."""
    by_arch: dict[int, list[DeviceImage]] = {}
    try:
        for image in images(path):
            if image.kind == ELF:
                by_arch.setdefault(image.sm, []).append(image)
    except NcuSwizzleError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return
    draw = random.Random(SEED)
    for arch in sorted(by_arch):
        chosen, left = list(by_arch[arch]), SAMPLE
        draw.shuffle(chosen)
        for image in chosen:
            if left <= 0:
                break
            code = image.content()
            sizes = functions_in(code)
            indices = list(sizes)
            draw.shuffle(indices)
            some: list[int] = []
            if sum(sizes.values()) > min(LARGE, left):
                room = min(LARGE, left)
                for index in indices:
                    if room <= 0:
                        break
                    if sizes[index] <= 4 * LARGE or not some:
                        some.append(index)
                        room -= sizes[index]
            left -= sum(sizes[index] for index in some or indices)
            yield code, some
        read = SAMPLE - left
        print(f"{path.name} sm_{arch}: {read:,} bytes of {len(chosen)} cubins", file=sys.stderr, flush=True)


def functions_in(code: bytes) -> dict[int, int]:
    """Return the bytes of machine code of a cubin's functions, by symbol index."""
    elf = open_elf(code)
    table = elf.get_section_by_name(".symtab")
    return {
        index: symbol["st_size"]
        for index, symbol in enumerate(table.iter_symbols() if table else ())
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]
    }


def one(
    program: str, code: bytes, functions: list[int], seen: dict[str, list[str]] | None
) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the architecture and the plain instructions of a cubin."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        chosen = ["-fun", ",".join(map(str, functions))] if functions else []
        command = [program, "-c", *(["-hex"] if seen is not None else []), *chosen, file.name]
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=300)
    if ran.returncode or not (target := TARGET.search(ran.stdout)):
        print(f"nvdisasm: {ran.stderr[:200]}", file=sys.stderr)
        return
    counts, remembered, waiting = Counter[str](), dict[str, str](), ""
    for line in ran.stdout.splitlines():
        if match := INSTRUCTION.match(line):
            text = match[2]
            plain = remembered.get(text)
            if plain is None:
                plain = remembered[text] = plainly(text)
            counts[plain] += 1
            if seen is not None and target[1].startswith("sm_90") and match[3] and plain not in seen:
                waiting = plain
                seen[plain] = [text, match[3]]
        elif waiting and (match := SECOND.match(line)):
            seen[waiting].append(match[1])  # type: ignore[index]
            waiting = ""
    yield target[1], counts


def plainly(text: str) -> str:
    """Return an instruction with other registers and numbers, as all like it have them."""
    for pattern, instead in PLAIN:
        text = pattern.sub(instead, text)
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
