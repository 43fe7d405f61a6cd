"""Execute an instruction of each form on an H100, and compare all that it writes with what the emulator computes.

    python3 bench/oracles/opcodes_on_gpu.py --choose ENCODINGS FILE   choose from what census.py --encodings found
    python3 bench/oracles/opcodes_on_gpu.py --neighbours FILE OTHER   other opcodes: those of FILE with a bit changed
    python3 bench/oracles/opcodes_on_gpu.py --run FILE OUT            on the GPU: all registers before and after each
    python3 bench/oracles/opcodes_on_gpu.py [FILE]   compare: OUT/opcodes.pkl.xz, or the digests that are kept
    python3 bench/oracles/opcodes_on_gpu.py --keep FILE …   keep the digests of such files
    python3 bench/oracles/opcodes_on_gpu.py --coverage   which of the census's opcodes have been executed

Each instruction is as a compiler encoded it, with constants from the parameters. It is put into a kernel of one warp
(opcode_frame.py) that loads all registers before it and stores them after it, with shared and global memory if it
accesses them, and launched with DATASETS contents. --keep writes tests/data/emulate/opcodes_h100.json.xz: each
instruction and a SHA-256 of what it wrote; it can be the FILE of --run. What waits, orders or branches is not there,
nor what copies through descriptors: recorded kernels check that.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import json
import lzma
import pickle
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from bench.oracles import opcode_frame as frame
from bench.oracles.opcode_frame import (
    DATASETS,
    GLOBAL,
    LANES,
    PREDICATES,
    REGISTERS,
    ROWS,
    SHARED,
    UNIFORM,
    UNIFORMS,
    UPREDICATES,
    WAYS,
    Access,
)

ARRAY = 0x7F0000000000  # where the array in global memory is, here and in what is kept
SIZE = ROWS * LANES * 4  # bytes of what is loaded, and stored
FIRST_LOCAL = (frame.STACK_HERE + frame.LOCAL) // 4  # of the words of local memory that are set
KEPT = ROOT / "tests" / "data" / "emulate" / "opcodes_h100.json.xz"
PATIENCE_S, MOST_S, PROCESSES = 5, 60.0, 6
AS_IT_IS, NOTHING = -1, -2  # in place of a sample's number: the stub, a NOP
NOP = 0x7918, 0xFC00000000000  # it sets no barriers, which an H100 refuses

# ------------------------------------------------------------------------------------------ on the GPU


def run(file: Path, out: Path) -> int:
    """Execute the samples in PROCESSES, each until one fails: then the rest in another."""
    samples, began = samples_in(file), time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    (out / "stub.cubin").write_bytes(frame.stub())
    print(f"the stub as it is: {of_part(file, out, AS_IT_IS, 0, '') or 'passed'}", flush=True)
    for way in WAYS:
        failure = of_part(file, out, NOTHING, 0, way)
        print(f"{way}, with a NOP: {failure or 'passed'}", flush=True)
        if not failure:
            break
        print(f"    first refused: {first_refused(file, out, way)}", flush=True)
    else:
        return 1
    bounds = [len(samples) * number // PROCESSES for number in range(PROCESSES + 1)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        failed = [*pool.map(lambda span: shard(file, out, *span, way, began), itertools.pairwise(bounds))]
    failures = [f"{samples[at][0]}: {why.splitlines()[-1]}\n" for each in failed for at, why in each]
    (out / "failed.txt").write_text("".join(failures))
    results = {"": (way, (out / "device").read_text(), samples)}
    for found in out.glob("result-*.pkl"):
        with found.open("rb") as stream, contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                results |= pickle.load(stream)
        found.unlink()
    (out / "opcodes.pkl.xz").write_bytes(lzma.compress(pickle.dumps(results), preset=2))
    print(f"{len(results) - 1} of {len(samples)} executed, {len(failures)} failed, {time.monotonic() - began:.0f} s")
    return 0


def samples_in(file: Path) -> list[list[str]]:
    """Return what --choose or --keep wrote: the text and both words of each instruction."""
    if file.suffix != ".xz":
        return json.loads(file.read_text())
    return [[text, low, high] for text, (low, high, _) in kept(file)["instructions"].items()]


def kept(file: Path = KEPT) -> dict:
    return json.loads(lzma.decompress(file.read_bytes()))


def shard(file: Path, out: Path, start: int, end: int, way: str, began: float) -> list[tuple[int, str]]:
    """Execute a range of samples; return the numbers of those that failed, and how."""
    failed: list[tuple[int, str]] = []
    while start < end and time.monotonic() - began < MOST_S:
        why = of_part(file, out, start, end, way)
        if not why:
            break
        at = int((out / f"at-{end}").read_text())
        failed.append((at, why))
        start = at + 1
    return failed


def of_part(file: Path, out: Path, start: int, end: int, way: str, words: int = 0) -> str:
    """Run `part` in another process; return how it failed, or nothing."""
    own = [sys.executable, __file__, "--part", str(file), str(out), str(start), str(end), way, str(words)]
    try:
        ran = subprocess.run(own, check=False, capture_output=True, text=True, timeout=MOST_S)
    except subprocess.TimeoutExpired:
        return "timed out"
    return f"{ran.returncode} {ran.stderr.strip()[-200:]}" if ran.returncode else ""


def first_refused(file: Path, out: Path, way: str) -> str:
    """Return the first word of a NOP's frame with which a kernel that ends behind it fails."""
    code = frame.program(NOP, way)
    good, bad = 0, len(code) // 16
    while bad - good > 1:
        middle = (good + bad) // 2
        if of_part(file, out, NOTHING, 0, way, middle):
            bad = middle
        else:
            good = middle
    low, high = struct.unpack_from("<QQ", code, 16 * (bad - 1))
    return f"number {bad - 1}, {low:#x} {high:#x}"


def check(status: int, what: str) -> None:
    if status:
        raise RuntimeError(f"{what}: {status}")


def device_name(cuda: ctypes.CDLL) -> str:
    name = ctypes.create_string_buffer(100)
    check(cuda.cuDeviceGetName(name, len(name), 0), "cuDeviceGetName")
    return name.value.decode()


def allocated(cuda: ctypes.CDLL, *sizes: int) -> list[ctypes.c_uint64]:
    """Return arrays of the first GPU."""
    context, device, pointers = ctypes.c_void_p(), ctypes.c_int(), [ctypes.c_uint64() for _ in sizes]
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device), "cuCtxCreate")
    for pointer, nbytes in zip(pointers, sizes, strict=True):
        check(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(nbytes)), "cuMemAlloc")
    return pointers


def part(file: Path, out: Path, start: int, end: int, way: str, words: int = 0) -> int:
    """Execute a range of samples; or the stub as it is; or a NOP's frame, or the first words of it."""
    cuda = ctypes.CDLL("libcuda.so.1")
    samples = samples_in(file)
    if start < 0:
        samples = [["NOP", *map(hex, NOP)]]
    (out / f"at-{end}").write_text(str(start))
    source, target, array = allocated(cuda, SIZE, SIZE, frame.GLOBAL_BYTES)
    (out / "device").write_text(device_name(cuda))

    def read(pointer: ctypes.c_uint64, shape: tuple[int, ...]) -> np.ndarray:
        found = np.empty(shape, np.uint32)
        place = found.ctypes.data_as(ctypes.c_void_p)
        check(cuda.cuMemcpyDtoH_v2(place, pointer, ctypes.c_size_t(found.nbytes)), "cuMemcpyDtoH")
        return found

    base = (out / "stub.cubin").read_bytes()
    for number in range(start, end) if start >= 0 else [0]:
        signal.alarm(PATIENCE_S)  # ends this process: nothing else ends a kernel that hangs
        (out / f"at-{end}").write_text(str(number))
        text, low, high = samples[number]
        access = Access.of(text)
        code = frame.program((int(low, 16), int(high, 16)), way or WAYS[0], access)
        cubin = base if start == AS_IT_IS else frame.with_code(base, code[: 16 * words or None])
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda.cuModuleLoadData(ctypes.byref(module), cubin), "cuModuleLoadData")
        check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"k"), "cuModuleGetFunction")
        found = []
        for dataset in range(DATASETS):
            content, given = frame.contents(dataset, access, array.value)
            if start == AS_IT_IS:
                given[:] = 0  # steps between what it reads
            raw = (ctypes.c_uint32 * 60)(*given.tolist())
            arguments = (ctypes.c_void_p * 3)(*[ctypes.addressof(each) for each in (source, target, raw)])
            held = frame.array_before(dataset)
            check(cuda.cuMemcpyHtoD_v2(source, content.tobytes(), ctypes.c_size_t(SIZE)), "cuMemcpyHtoD")
            check(cuda.cuMemcpyHtoD_v2(array, held.tobytes(), ctypes.c_size_t(held.nbytes)), "cuMemcpyHtoD")
            check(cuda.cuMemsetD8_v2(target, 0xA5, ctypes.c_size_t(SIZE)), "cuMemsetD8")
            nbytes = frame.SHARED_BYTES if access else 0
            check(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, nbytes, None, arguments, None), "cuLaunchKernel")
            check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
            after = read(target, (ROWS, LANES))
            before, here = (
                frame.before(*frame.contents(dataset, access, at)) for at in (array.value, ARRAY)
            )  # where nothing is written, addresses are as if the array were where it is here
            rows = changed(np.where(after == before, here, after), here, way or WAYS[0], access)
            if access and not np.array_equal(now := read(array, held.shape), held):
                rows[GLOBAL] = now
            found.append(rows)
        if start >= 0:
            with (out / f"result-{start}.pkl").open("ab") as stream:
                pickle.dump({text: found}, stream)
        elif start == NOTHING and not words and any(found):
            raise RuntimeError(f"a NOP changes {[sorted(rows)[:8] for rows in found]}")
        check(cuda.cuModuleUnload(module), "cuModuleUnload")
    return 0


def changed(after: np.ndarray, unchanged: np.ndarray, way: str, access: Access | None) -> dict[int, np.ndarray]:
    """Return the rows that are not as before."""
    left_out = WAYS.index(way)
    rows = [*range(REGISTERS), *[PREDICATES] * (left_out < 3), *[UPREDICATES] * (left_out < 1)]
    rows += range(UNIFORMS, UNIFORMS + UNIFORM if left_out < 2 else UNIFORMS)
    if access is not None:
        rows += range(SHARED, ROWS if access.in_shared else SHARED + frame.LOCAL_WORDS if access.in_local else SHARED)
        rows = [row for row in rows if row not in access.hidden]
    return {row: after[row] for row in rows if not np.array_equal(after[row], unchanged[row])}


# ------------------------------------------------------------------------------------------ choosing and comparing


def why_not(text: str) -> str:
    """Return why an instruction cannot be a sample; "" if it can."""
    from ncu_swizzle.emulate.code import Sass, parse_instruction
    from ncu_swizzle.emulate.operands import COMPILERS
    from ncu_swizzle.emulate.operations.special import SPECIAL_REGISTERS
    from ncu_swizzle.smem.opcodes import Copy

    instruction = parse_instruction(Sass(0, text))
    row, access, special = instruction.row, Access.of(text), re.search(r"SR_(\S+)", text)
    registers = (max(map(int, re.findall(rf"\b{kind}(\d+)\b", text)), default=0) for kind in ("R", "UR"))
    needs_frame = any(number > most for number, most in zip(registers, (REGISTERS - 6, UNIFORM - 2), strict=True))
    computes = row.name in COMPILERS or row.products or row.name == "MOVM"
    reasons = {
        "branches, waits or orders": row.control or row.synchronises or row.arrives or row.orders,
        "copies tiles or reads them": row.tile or row.copy not in (Copy.NO, Copy.ASYNC),
        "accesses memory in a way that is not sampled": bool(row.reads | row.writes) and not access,
        "writes nothing that is computed": not (computes or access) or row.name == "USETMAXREG",
        "only the hardware knows it": (special and special[1] not in SPECIAL_REGISTERS) or instruction.has("CAST"),
        "an address": not access and re.search(r"cx\[|\[R|\[UR|`|WIN(HI|LO)", text),
        "never executes, or needs the frame's registers": instruction.never or needs_frame,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def disassembled(words: Sequence[tuple[int, int]]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the texts of encodings, but of those that are none."""
    from ncu_swizzle.emulate.code import with_bits_of_nan
    from ncu_swizzle.kernels.toolchain import NVDISASM, Toolchain

    program_, left = str(Toolchain().find(NVDISASM)), list(words)
    with tempfile.NamedTemporaryFile(suffix=".bin") as binary:
        while True:
            Path(binary.name).write_bytes(b"".join(struct.pack("<QQ", *word) for word in left))
            shown = subprocess.run([program_, "-b", "SM90", binary.name], capture_output=True, text=True, check=False)
            wrong = {int(at, 16) // 16 for at in re.findall(r"at address (0x[0-9a-f]+)", shown.stderr)}
            if not wrong:
                break
            left = [word for number, word in enumerate(left) if number not in wrong]
    for at, text in re.findall(r"/\*([0-9a-f]{4,})\*/\s+(\S.*?)\s*;", shown.stdout):
        word = left[int(at, 16) // 16]
        yield with_bits_of_nan(text, struct.pack("<QQ", *word)), word


def neighbours(file: Path, out: Path) -> int:
    """Write more samples: what changing a bit of each makes, one for each opcode with modifiers that is not there."""
    from bench.figures.census import mnemonic

    samples = samples_in(file)
    there, found = {mnemonic(text) for text, *_ in samples}, dict[str, list[str]]()
    words = [(int(low, 16), int(high, 16)) for _, low, high in samples]
    changed_words = {(low, high ^ 1 << bit) for low, high in words for bit in range(8, 41)}
    for text, (low, high) in disassembled(sorted(changed_words)):
        name, registers = mnemonic(text), [*map(int, re.findall(r"\bU?R(\d+)", text))]
        multiple = 4 if "128" in name else 2 if re.search(r"64|WIDE|^D|x2|\.[24]\b", name) else 1
        if name in there or name in found or any(register % multiple for register in registers):
            continue
        with contextlib.suppress(Exception):  # of what is not SASS that compilers emit
            if not why_not(text) and digest_here(text):
                found[name] = [text, f"{low:#x}", f"{high:#x}"]
    out.write_text(json.dumps(sorted(found.values()), indent=0))
    print(f"{len(found)} opcodes with modifiers")
    return 0


def choose(encodings: Path, file: Path) -> int:
    """Write the samples: of each form one that reads and writes nothing that the kernel needs for itself."""
    from bench.figures.census import mnemonic, plainly

    found = {}
    for path in sorted(encodings.glob("*.json")) if encodings.is_dir() else [encodings]:
        found = {**{plainly(each[0]): each for each in json.loads(path.read_text()).values()}, **found}
    chosen: list[tuple[int, int]] = []
    for text, low, *high in (found[plain] for plain in sorted(found)):
        if not high or why_not(text):
            continue
        word = [int(low, 16), int(high[0], 16)]
        if "c[0x" in text:  # offset and bank: one of the parameters
            word[0] = word[0] & ~(0x7FFFF << 40) | (frame.GIVEN + 16) // 4 << 40
        word[1] &= ~(0xF << 58)  # .reuse
        chosen.append((word[0], word[1]))
    samples = [[text, f"{low:#x}", f"{high:#x}"] for text, (low, high) in disassembled(chosen)]
    file.write_text(json.dumps(samples, indent=0))
    print(f"{len(samples)} samples, {len({mnemonic(each[0]) for each in samples})} opcodes with modifiers, "
          f"{len({mnemonic(each[0]).split('.')[0] for each in samples})} opcodes")  # fmt: skip
    return 0


def prepared(words: np.ndarray, given: np.ndarray, dataset: int):
    """Return a machine of one warp with these registers and memories."""
    from ncu_swizzle.emulate.counts import Buffer
    from ncu_swizzle.emulate.device_memory import DeviceMemory
    from ncu_swizzle.emulate.effects import BASES
    from ncu_swizzle.emulate.values import Value
    from tests.support.emulation import machine

    bank = bytearray(0x400)
    bank[frame.GIVEN : frame.GIVEN + 240] = given.tobytes()
    memory = DeviceMemory.holding(
        (Buffer("array", ARRAY, frame.GLOBAL_BYTES),), {ARRAY: frame.array_before(dataset).tobytes()}
    )
    m = machine(
        constants={0: bytes(bank)}, known_constants={0: np.ones(len(bank), bool)}, device=memory,
        shared_size=frame.RESERVED + frame.SHARED_BYTES,
    )  # fmt: skip
    m.keep_contents()
    m.shared_written = True
    m.shared[0, frame.RESERVED :], m.shared_known[:] = words[SHARED:].astype("<u4").view(np.uint8).ravel(), True
    for number in range(frame.LOCAL_WORDS):
        word = m.local_word(FIRST_LOCAL + number)
        word.bits[:], word.known[:] = words[SHARED + number], 0xF
    for register in range(REGISTERS):
        m.registers[register] = Value(words[register : register + 1].copy())
    for register in range(UNIFORM):
        m.registers[BASES["UR"] + register] = Value(given[register : register + 1, None].copy())
    for number in range(7):
        m.registers[BASES["P"] + number] = Value((words[PREDICATES : PREDICATES + 1] >> number & 1).astype(bool))
        m.registers[BASES["UP"] + number] = Value(np.array([[bool(given[UNIFORM + number])]]))
    return m


def computed(text: str, dataset: int) -> tuple[dict[int, tuple[np.ndarray, np.ndarray]], bool]:
    """Return the rows that the emulator writes, with which words are known; and whether it computes it."""
    from ncu_swizzle.emulate.accesses import RequestLog
    from ncu_swizzle.emulate.code import Code, Sass
    from ncu_swizzle.emulate.effects import BASES, effects, numbers_in
    from ncu_swizzle.emulate.execution import data_step
    from ncu_swizzle.emulate.liveness import Demand
    from ncu_swizzle.emulate.program import prepare

    access = Access.of(text)
    words, given = frame.contents(dataset, access, ARRAY)
    code = Code(name="sample", instructions=(Sass(0, text), Sass(16, "EXIT")))
    program_ = prepare(code, Demand(everything=True, arrays=True), None, data_step)
    m = prepared(words, given, dataset)
    m.log = RequestLog(m, program_.instructions)
    old = list(m.registers)
    step = program_.steps[0]
    if step is not None:
        step(m)
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    bits = {
        PREDICATES: [old[BASES["P"] + n] for n in range(7)],
        UPREDICATES: [old[BASES["UP"] + n] for n in range(7)],
    }
    for register in numbers_in(effects(program_.instructions[0]).writes):
        value = m.registers[register]
        if register >= BASES["P"]:
            row = UPREDICATES if register >= BASES["UP"] else PREDICATES
            bits[row][register - BASES["UP" if row == UPREDICATES else "P"]] = value
            continue
        row = register if register < BASES["UR"] else UNIFORMS + register - BASES["UR"]
        found[row] = wide(value)
    for row, values in bits.items():
        word, known = np.zeros(LANES, np.uint32), np.zeros(LANES, np.uint32)
        for number, value in enumerate(values):
            one, sure = wide(value)
            word |= one.astype(np.uint32) << number
            known |= sure.astype(np.uint32) << number
        found[row] = word, known
    if access:
        found |= written_memory(m, held_before(text, dataset))
    return found, not program_.unsupported and not program_.failures


def written_memory(m, old: dict[int, np.ndarray]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return the rows of shared memory, and the array, that are not as before, and which words of them are known."""
    where = m.device.span(ARRAY, frame.GLOBAL_BYTES)
    now, sure = m.shared[0, frame.RESERVED :].view(np.uint32), all_known(m.shared_known[0, frame.RESERVED :])
    held = dict(
        zip(range(SHARED, ROWS), zip(now.reshape(-1, LANES), sure.reshape(-1, LANES), strict=True), strict=True)
    )
    for number in range(frame.LOCAL_WORDS):  # the same rows, of a sample that accesses local memory
        word = m.local_word(FIRST_LOCAL + number)
        if not np.array_equal(word.bits[0], old[SHARED + number]) or (word.known != 0xF).any():
            held[SHARED + number] = word.bits[0], word.known[0] == 0xF
    held[GLOBAL] = m.device.content[where].view(np.uint32), all_known(m.device.known[where])
    return {row: (w, s) for row, (w, s) in held.items() if not s.all() or not np.array_equal(w, old[row])}


def all_known(known: np.ndarray) -> np.ndarray:
    """Return which words are known, of what says so of bytes."""
    return known.reshape(-1, 4).astype(bool).all(axis=1)


def wide(value) -> tuple[np.ndarray, np.ndarray]:
    if value is None:
        return np.zeros(LANES, np.uint32), np.zeros(LANES, bool)
    bits = np.broadcast_to(value.bits, (1, value.bits.shape[1]))[0]
    return np.broadcast_to(bits, LANES).copy(), np.broadcast_to(np.asarray(value.known), (1, LANES))[0].copy()


def verdict(text: str, recorded: list[dict[int, np.ndarray]], left_out: int) -> tuple[str, str]:
    """Return equal, different or unknown, and where."""
    unknown = False
    for dataset, rows in enumerate(recorded):
        ours, known = computed(text, dataset)
        if not known:
            return "unknown", "not emulated"
        unchanged = held_before(text, dataset)
        for row in {*rows, *ours}:
            theirs = rows.get(row, unchanged[row])
            if (
                (UNIFORMS <= row < SHARED and left_out >= 2)
                or (row == UPREDICATES and left_out)
                or (row == PREDICATES and left_out > 2)
            ):
                continue
            if row not in ours:
                return "different", f"dataset {dataset}: row {row} is written, {theirs[:4]}"
            bits, sure = ours[row]
            if row in (PREDICATES, UPREDICATES):
                wrong = (bits ^ theirs) & sure & 0x7F
                unknown |= bool((~sure & 0x7F).any())
            else:
                wrong = np.where(sure, bits.astype(np.uint32) ^ theirs, 0)
                unknown |= not sure.all()
            if wrong.any():
                lane = int(np.flatnonzero(wrong)[0])
                return (
                    "different",
                    f"dataset {dataset}, row {row}, lane {lane}: H100 {theirs[lane]:#x}, here {int(bits[lane]):#x}",
                )
    return ("unknown" if unknown else "equal"), ""


def compare(out: Path) -> int:
    results = pickle.loads(lzma.decompress(out.read_bytes()))
    left_out = WAYS.index(results.pop("")[0])
    tally: dict[str, int] = {}
    for text, recorded in results.items():
        try:
            said, where = verdict(text, recorded, left_out)
        except Exception as error:
            said, where = "failed", repr(error)
        tally[said] = tally.get(said, 0) + 1
        if said != "equal":
            print(f"{said:9} {text}  {where}")
    print(tally)
    return 1 if tally.get("different") or tally.get("failed") else 0


def held_before(text: str, dataset: int) -> dict[int, np.ndarray]:
    """Return all rows, and the array in global memory, as they are before a sample."""
    access = Access.of(text)
    return {
        **dict(enumerate(frame.before(*frame.contents(dataset, access, ARRAY)))),
        GLOBAL: frame.array_before(dataset),
    }


def digest(text: str, states: list[dict[int, np.ndarray]]) -> str:
    """Return a digest of the rows that are not as before, dataset by dataset."""
    made = hashlib.sha256()
    for dataset, rows in enumerate(states):
        unchanged = held_before(text, dataset)
        for row in sorted(rows):
            if not np.array_equal(rows[row], unchanged[row]):
                made.update(f"{dataset} {row} ".encode() + rows[row].astype("<u4").tobytes())
    return made.hexdigest()[:16]


def _sure(row: int, sure: np.ndarray) -> bool:
    return bool((sure & 0x7F == 0x7F).all() if row in (PREDICATES, UPREDICATES) else sure.all())


def digest_here(text: str) -> str:
    """Return the digest of what the emulator computes; empty if not all of it is known."""
    states = []
    for dataset in range(DATASETS):
        rows, emulated = computed(text, dataset)
        if not emulated or not all(_sure(row, sure) for row, (_, sure) in rows.items()):
            return ""
        states.append({row: bits.astype(np.uint32) for row, (bits, _) in rows.items()})
    return digest(text, states)


def keep(*outs: Path) -> int:
    """Write the digests of what was executed."""
    content: dict[str, list[str]] = {}
    for out in outs:
        results = pickle.loads(lzma.decompress(out.read_bytes()))
        way, device, samples = results.pop("")
        if way != WAYS[0]:
            raise SystemExit("not all of the state was stored")
        words = {text: encoding for text, *encoding in samples}
        content |= {text: [*words[text], digest(text, recorded)] for text, recorded in results.items()}
    whole = {"gpu": device, "instructions": dict(sorted(content.items()))}
    KEPT.write_bytes(lzma.compress(json.dumps(whole).encode(), preset=9))
    print(f"{len(content)} instructions, {KEPT.stat().st_size:,} bytes")
    return 0


def compare_kept() -> int:
    """Compare the digests that are kept."""
    tally: dict[str, int] = {}
    for text, (_, _, recorded) in kept()["instructions"].items():
        here = digest_here(text)
        said = "unknown" if not here else "equal" if here == recorded else "different"
        tally[said] = tally.get(said, 0) + 1
        if said != "equal":
            print(f"{said:9} {text}")
    print(tally)
    return 1 if tally.get("different") else 0


def coverage() -> int:
    """Print, to docs/emulator.md too, how much of what the census found for an H100 was executed, and what was not."""
    from bench.figures import tables
    from bench.figures.census import loaded, mnemonic

    recorded = kept()
    executed = {mnemonic(text) for text in recorded["instructions"]}
    found = sum((counts for arch in ("sm_90", "sm_90a") for counts in loaded()[arch].values()), Counter[str]())
    groups: dict[str, Counter[str]] = {"executed, and equal": Counter()}
    for text, count in found.items():
        name = mnemonic(text)
        reason = "executed, and equal" if name in executed else why_not(text) or "no encoding of it was found"
        groups.setdefault(reason, Counter())[name] += count
    lines = [
        tables.head("instructions of the census for sm_90", "opcodes", "with modifiers", "of instructions", "such as")
    ]
    for reason, names in sorted(groups.items(), key=lambda item: -item[1].total()):
        opcodes = Counter[str]()
        for name, count in names.items():
            opcodes[name.partition(".")[0]] += count
        most = ", ".join(opcode for opcode, _ in opcodes.most_common(5))
        lines.append(tables.row(reason, len(opcodes), len(names), f"{names.total() / found.total():.2%}", most))
    text = "\n".join(lines) + f"\n\n{len(recorded['instructions']):,} instructions on an {recorded['gpu']}.\n"
    tables.replace(ROOT / "docs" / "emulator.md", "opcodes", __file__, text)
    print(text, end="")
    return 0


def main(arguments: list[str]) -> int:
    option, *others = arguments or [""]
    if option == "--part":
        file, out, start, end, way, words = others
        return part(Path(file), Path(out), int(start), int(end), way, int(words))
    ways = {
        "--neighbours": neighbours,
        "--coverage": coverage,
        "--keep": keep,
        "--choose": choose,
        "--run": run,
        "": compare_kept,
    }
    return ways[option](*map(Path, others)) if option in ways else compare(Path(option))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
