"""Execute an instruction of each form on an H100, and compare all that it writes with what the emulator computes.

    python3 bench/oracles/opcodes_on_gpu.py --choose ENCODINGS FILE   choose from what census.py --encodings found
    python3 bench/oracles/opcodes_on_gpu.py --run FILE OUT            on the GPU: all registers before and after each
    python3 bench/oracles/opcodes_on_gpu.py [OUT]   compare: OUT/opcodes.pkl.xz, or the digests that are kept
    python3 bench/oracles/opcodes_on_gpu.py --keep OUT   keep the digests of OUT/opcodes.pkl.xz

Each instruction is as a compiler encoded it, with constants from the parameters. It is put into a kernel of one warp
that loads all registers before it and stores them after it, and launched with DATASETS contents of the registers. Kept
in tests/data/emulate/opcodes_h100.json are SHA-256s of what each wrote. What accesses memory, waits, branches or reads
special registers is not among them: recorded kernels check that.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
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
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
KEPT = ROOT / "tests" / "data" / "emulate" / "opcodes_h100.json"
PATIENCE_S, MOST_FAILURES, MOST_S = 5, 40, 90.0
REGISTERS, UNIFORM, LANES, DATASETS = 250, 52, 32, 6
PREDICATES, UPREDICATES, UNIFORMS, ROWS = 250, 251, 256, 256 + 60  # rows of what is stored, 32 words each
PARAMETERS, GIVEN = 0x210, 0x220  # in constant bank 0: both pointers, then 60 words
STUB = """
struct Words { unsigned u[60]; };
extern "C" __global__ void k(float *in, float *out, Words w) {
    float r[244];
    #pragma unroll
    for (int i = 0; i < 244; i++) r[i] = in[i * 32 + threadIdx.x];
    #pragma unroll
    for (int n = 0; n < 6; n++)
        #pragma unroll
        for (int i = 0; i < 244; i++) r[i] = r[i] * r[(i + 7) % 244] + r[(i + 13) % 244];
    #pragma unroll
    for (int i = 0; i < 244; i++) out[i * 32 + threadIdx.x] = r[i] + __uint_as_float(w.u[i % 60]);
}
"""
Word = tuple[int, int]
EDGES = (
    0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000,
    0x00800000, 0x7F7FFFFF, 0x3C003C00, 0x7C00FC00, 0x00010001,
)  # fmt: skip

# ------------------------------------------------------------------------------------------ the kernel


def timed(word: Word, stall: int = 15, write: int = 7, read: int = 7, wait: int = 0) -> Word:
    """Return an instruction with other control bits: cycles, barriers that it sets, and those that it waits for."""
    control = stall | write << 5 | read << 8 | wait << 11
    return word[0], word[1] & ((1 << 41) - 1) | control << 41


NOP, EXIT = (0x7918, 0), (0x794D, 0x3800000)
WAIT = timed(NOP, wait=0x3F)


def address(low: int, constant: int) -> list[Word]:
    """Return what puts a pointer of bank 0 plus 4 bytes per lane (R0) into a register pair.

    LDC and ULDC alone read constants on an H100, whose other instructions have no such operand.
    """
    pointer = timed((constant // 4 << 40 | 0xFF << 24 | low << 16 | 0x7B82, 0xA00), write=0)  # LDC.64
    return [pointer, WAIT, timed((4 << 32 | low << 16 | 0x7825, 0x78E0000 | low))]


def load(register: int, row: int) -> Word:
    return timed((row * 128 << 40 | 0x3C << 32 | 252 << 24 | register << 16 | 0x7981, 0xC1E1900), write=0)


def store(register: int, row: int) -> Word:
    return timed((row * 128 << 40 | register << 32 | 250 << 24 | 0x7986, 0xC10193C), read=1)


def uniform(register: int, constant: int, wide: bool = False) -> Word:
    return timed((constant // 4 << 40 | register << 16 | 0x7AB9, 0xA00 if wide else 0x800))


WAYS = ("all", "without uniform predicates", "without uniform registers", "registers alone")


def program(sample: Word, way: str = WAYS[0]) -> bytes:
    """Return the machine code around an instruction; `way` is how much of the state is set and stored."""
    left_out = WAYS.index(way)
    read_lane = timed((0x7919, 0x2100), write=0)  # S2R R0, SR_TID.X
    descriptor = uniform(60, 0x208, wide=True)
    code = [read_lane, WAIT, *address(252, PARAMETERS), *address(250, PARAMETERS + 8), descriptor]
    if left_out < 3:
        code += [load(0, PREDICATES), WAIT, timed((0x7F00007804, 0)), WAIT]  # R2P PR, R0, 0x7f
    for register in range(REGISTERS):  # a barrier counts to 63
        code += [load(register, register), *[WAIT] * (register % 32 == 31)]
    if left_out < 1:
        for number in range(7):  # UISETP.NE.AND UP, UPT, UR59, URZ, UPT
            compare = (0xFF3B00728C, 0xBF05270 | number << 17)
            code += [uniform(59, GIVEN + 4 * (UNIFORM + number)), WAIT, WAIT, timed(compare), WAIT]
    if left_out < 2:
        code += [uniform(register, GIVEN + 4 * register) for register in range(UNIFORM)] + [WAIT, WAIT]
    write, read = sample[1] >> 46 & 7, sample[1] >> 49 & 7
    code += [WAIT, timed(sample, write=write, read=read, wait=0x3F), *[WAIT] * 12, descriptor, WAIT]
    for register in range(REGISTERS):
        code += [store(register, register), *[WAIT] * (register % 32 == 31)]
    code += [WAIT]
    if left_out < 3:
        code += [timed((0x7FFF007803, 0)), WAIT, store(0, PREDICATES)]  # P2R R0, PR, RZ, 0x7f
    if left_out < 1:
        code += [timed((0x7F3F3B7883, 0x8000000)), WAIT]  # UP2UR UR59, UPR, URZ, 0x7f
        code += [timed((59 << 32 | 240 << 16 | 0x7C02, 0x8000F00)), WAIT, store(240, UPREDICATES)]  # MOV R240, UR59
    for register in range(UNIFORM if left_out < 2 else 0):
        code += [timed((register << 32 | 1 + register << 16 | 0x7C02, 0x8000F00)), WAIT]
        code += [store(1 + register, UNIFORMS + register)]
    return b"".join(struct.pack("<QQ", *word) for word in [*code, WAIT, timed(EXIT)])


def stub() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "stub.cu")
        source.write_text(STUB, encoding="utf-8")
        subprocess.run(["nvcc", "-arch=sm_90", "-cubin", "-o", f"{folder}/stub.cubin", str(source)], check=True)
        return Path(folder, "stub.cubin").read_bytes()


def with_code(cubin: bytes, code: bytes) -> bytes:
    """Return the cubin with other machine code, and NOPs and EXITs behind it."""
    import io

    from elftools.elf.elffile import ELFFile

    section = ELFFile(io.BytesIO(cubin)).get_section_by_name(".text.k")
    start, size = section["sh_offset"], section["sh_size"]
    if len(code) > size:
        raise SystemExit(f"the stub has {size} bytes of code, {len(code)} are needed")
    filled = code + struct.pack("<QQ", *timed(EXIT)) * ((size - len(code)) // 16)
    return cubin[:start] + filled + cubin[start + size :]


# ------------------------------------------------------------------------------------------ contents of registers


def contents(dataset: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what registers and predicates hold, (ROWS, 32), and the words among the parameters, (60,)."""
    rng = np.random.default_rng(dataset)
    words = rng.integers(0, 1 << 32, (ROWS, LANES), dtype=np.uint32)
    given = rng.integers(0, 1 << 32, 60, dtype=np.uint32)
    edges = np.array(EDGES, np.uint32)
    if dataset == 1:
        words, given = (rng.normal(0, 100, each.shape).astype(np.float32).view(np.uint32) for each in (words, given))
    if dataset == 2:
        halves = rng.normal(0, 10, (*words.shape, 2)).astype(np.float16)
        words = halves.view(np.uint32)[..., 0]
    if dataset == 3:
        words, given = rng.choice(edges, words.shape), rng.choice(edges, 60)
    if dataset == 4:
        words, given = words % 70, given % 70
    if dataset == 5:  # doubles in even pairs
        doubles = rng.normal(0, 1000, (ROWS // 2, LANES)).view(np.uint64)
        words[0::2], words[1::2] = doubles & 0xFFFFFFFF, doubles >> 32
    given[UNIFORM : UNIFORM + 7] = rng.integers(0, 2, 7)  # what uniform predicates are
    return words, given


def before(words: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Return all rows as they are stored if an instruction does nothing."""
    rows = words.copy()
    rows[PREDICATES] &= 0x7F
    rows[UPREDICATES] = sum(int(given[UNIFORM + number]) << number for number in range(7))
    rows[UNIFORMS : UNIFORMS + 60] = given[:, None]
    return rows


# ------------------------------------------------------------------------------------------ on the GPU


def run(file: Path, out: Path) -> int:
    """Execute the samples, each in this process until one fails: then the rest in another."""
    samples, began = json.loads(file.read_text()), time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    (out / "stub.cubin").write_bytes(stub())
    own = [sys.executable, __file__, "--part", str(file), str(out)]
    untouched = subprocess.run([*own, "-1", ""], check=False).returncode
    print(f"the stub as it is: {untouched}", flush=True)
    for way in WAYS:
        nothing = subprocess.run([*own, "-2", way], check=False, capture_output=True, text=True)
        print(f"{way}, with a NOP: {nothing.returncode} {nothing.stderr[-200:]}", flush=True)
        if nothing.returncode == 0:
            break
    else:
        return 1
    start = failures = 0
    while start < len(samples) and failures < MOST_FAILURES and time.monotonic() - began < MOST_S:
        ran = subprocess.run([*own, str(start), way], check=False, capture_output=True, text=True)
        at = max((int(each.stem.partition("-")[2]) for each in out.glob("part-*.pkl")), default=start)
        if ran.returncode == 0:
            break
        with (out / "failed.txt").open("a") as log:
            log.write(f"{at}: {samples[at][0]} ended with {ran.returncode}: {ran.stderr[-80:].strip()}\n")
        start, failures = at + 1, failures + 1
    results = {"": way}
    for part in out.glob("result-*.pkl"):
        with part.open("rb") as stream, contextlib.suppress(EOFError):
            while True:
                results |= pickle.load(stream)
        part.unlink()
    for part in out.glob("part-*.pkl"):
        part.unlink()
    (out / "opcodes.pkl.xz").write_bytes(lzma.compress(pickle.dumps(results), preset=2))
    print(f"{len(results) - 1} of {len(samples)} executed, {failures} failed, {time.monotonic() - began:.0f} s")
    return 0


def part(file: Path, out: Path, start: int, way: str) -> int:
    """Execute the samples from a number on; -1: the stub alone, -2: a NOP."""
    cuda = ctypes.CDLL("libcuda.so.1")
    samples = json.loads(file.read_text())
    if start < 0:
        samples, start = [["NOP", "0x7918", "0x0"]], 0 if way else -1

    def check(status: int, what: str) -> None:
        if status:
            raise RuntimeError(f"{what}: {status}")

    context, device = ctypes.c_void_p(), ctypes.c_int()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device), "cuCtxCreate")
    size = ROWS * LANES * 4
    inputs = []
    target = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(target), size), "cuMemAlloc")
    for dataset in range(DATASETS):
        words, given = contents(dataset)
        source = ctypes.c_uint64()
        check(cuda.cuMemAlloc_v2(ctypes.byref(source), size), "cuMemAlloc")
        check(cuda.cuMemcpyHtoD_v2(source, words.tobytes(), size), "cuMemcpyHtoD")
        inputs.append((source, words, given))
    base = (out / "stub.cubin").read_bytes()
    for number in range(max(start, 0), len(samples)):
        signal.alarm(PATIENCE_S)  # ends this process: nothing else ends a kernel that hangs
        (out / f"part-{number}.pkl").touch()
        (out / f"part-{number - 1}.pkl").unlink(missing_ok=True)
        text, low, high = samples[number]
        code = with_code(base, program((int(low, 16), int(high, 16)), way)) if start >= 0 else base
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda.cuModuleLoadData(ctypes.byref(module), code), "cuModuleLoadData")
        check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"k"), "cuModuleGetFunction")
        found = []
        for source, words, given in inputs:
            raw = (ctypes.c_uint32 * 60)(*given.tolist())
            arguments = (ctypes.c_void_p * 3)(*[ctypes.addressof(each) for each in (source, target, raw)])
            check(cuda.cuMemsetD8_v2(target, 0xA5, ctypes.c_size_t(size)), "cuMemsetD8")
            check(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, arguments, None), "cuLaunchKernel")
            check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
            read = np.empty((ROWS, LANES), np.uint32)
            check(cuda.cuMemcpyDtoH_v2(read.ctypes.data_as(ctypes.c_void_p), target, size), "cuMemcpyDtoH")
            found.append(changed(read, words, given, way) if start >= 0 else {})
        if text != "NOP":
            with (out / f"result-{start}.pkl").open("ab") as stream:
                pickle.dump({text: found}, stream)
        elif any(found):
            raise RuntimeError(f"a NOP changes {[sorted(rows)[:8] for rows in found]}")
        check(cuda.cuModuleUnload(module), "cuModuleUnload")
    return 0


def changed(after: np.ndarray, words: np.ndarray, given: np.ndarray, way: str) -> dict[int, np.ndarray]:
    """Return the rows that are not as before."""
    left_out = WAYS.index(way)
    rows = [*range(REGISTERS), *[PREDICATES] * (left_out < 3), *[UPREDICATES] * (left_out < 1)]
    rows += range(UNIFORMS, UNIFORMS + UNIFORM if left_out < 2 else UNIFORMS)
    unchanged = before(words, given)
    return {row: after[row] for row in rows if not np.array_equal(after[row], unchanged[row])}


# ------------------------------------------------------------------------------------------ choosing and comparing


def why_not(text: str) -> str:
    """Return why an instruction cannot be a sample; "" if it can."""
    from ncu_swizzle.emulate.code import Sass, parse_instruction
    from ncu_swizzle.emulate.opcodes import Copy
    from ncu_swizzle.emulate.operands import COMPILERS
    from ncu_swizzle.emulate.operations.special import SPECIAL_REGISTERS

    instruction = parse_instruction(Sass(0, text))
    row, special = instruction.row, re.search(r"SR_(\S+)", text)
    registers = (max(map(int, re.findall(rf"\b{kind}(\d+)\b", text)), default=0) for kind in ("R", "UR"))
    needs_frame = any(number > most for number, most in zip(registers, (244, UNIFORM - 2), strict=True))
    computes = row.name in COMPILERS or row.products or row.name == "MOVM"
    reasons = {
        "branches, waits or orders": row.control or row.synchronises or row.arrives or row.orders,
        "accesses memory": row.tile or row.copy is not Copy.NO or bool(row.reads | row.writes),
        "writes nothing that is computed": not computes or row.name == "USETMAXREG",
        "only the hardware knows it": special and special[1] not in SPECIAL_REGISTERS,
        "an address": re.search(r"cx\[|\[R|\[UR|`", text),
        "never executes, or needs the frame's registers": instruction.never or needs_frame,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def choose(encodings: Path, file: Path) -> int:
    """Write the samples: of each form one that reads and writes nothing that the kernel needs for itself."""
    from bench.figures.census import mnemonic
    from ncu_swizzle.kernels.toolchain import NVDISASM, Toolchain

    found = {}
    for path in encodings.glob("*.json") if encodings.is_dir() else [encodings]:
        found = {**json.loads(path.read_text()), **found}
    chosen: list[tuple[int, int]] = []
    for text, low, *high in (found[plain] for plain in sorted(found)):
        if not high or why_not(text):
            continue
        word = [int(low, 16), int(high[0], 16)]
        if "c[0x" in text:  # offset and bank: one of the parameters
            word[0] = word[0] & ~(0x7FFFF << 40) | (GIVEN + 16) // 4 << 40
        word[1] &= ~(0xF << 58)  # .reuse
        chosen.append((word[0], word[1]))
    program_ = str(Toolchain().find(NVDISASM))
    with tempfile.NamedTemporaryFile(suffix=".bin") as binary:
        binary.write(b"".join(struct.pack("<QQ", *word) for word in chosen))
        binary.flush()
        shown = subprocess.run([program_, "-b", "SM90", binary.name], capture_output=True, text=True, check=True).stdout
    texts = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", shown)
    assert len(texts) == len(chosen), (len(texts), len(chosen))
    samples = [[text, f"{low:#x}", f"{high:#x}"] for text, (low, high) in zip(texts, chosen, strict=True)]
    file.write_text(json.dumps(samples, indent=0))
    print(f"{len(samples)} samples, {len({mnemonic(each[0]) for each in samples})} opcodes with modifiers, "
          f"{len({mnemonic(each[0]).split('.')[0] for each in samples})} opcodes")  # fmt: skip
    return 0


def computed(text: str, dataset: int) -> tuple[dict[int, tuple[np.ndarray, np.ndarray]], bool]:
    """Return the rows that the emulator writes, with which words are known; and whether it computes it."""
    from ncu_swizzle.emulate.code import Code, Sass
    from ncu_swizzle.emulate.effects import BASES, effects, numbers_in
    from ncu_swizzle.emulate.execution import data_step
    from ncu_swizzle.emulate.liveness import Demand
    from ncu_swizzle.emulate.program import prepare
    from ncu_swizzle.emulate.values import Value
    from tests.support.emulation import machine

    words, given = contents(dataset)
    bank = bytearray(0x400)
    bank[GIVEN : GIVEN + 240] = given.tobytes()
    code = Code(name="sample", instructions=(Sass(0, text), Sass(16, "EXIT")))
    program_ = prepare(code, Demand(everything=True), None, data_step)
    m = machine(constants={0: bytes(bank)}, known_constants={0: np.ones(len(bank), bool)})
    for register in range(REGISTERS):
        m.registers[register] = Value(words[register : register + 1].copy())
    for register in range(UNIFORM):
        m.registers[BASES["UR"] + register] = Value(given[register : register + 1, None].copy())
    for number in range(7):
        m.registers[BASES["P"] + number] = Value((words[PREDICATES : PREDICATES + 1] >> number & 1).astype(bool))
        m.registers[BASES["UP"] + number] = Value(np.array([[bool(given[UNIFORM + number])]]))
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
    return found, not program_.unsupported and not program_.failures


def wide(value) -> tuple[np.ndarray, np.ndarray]:
    if value is None:
        return np.zeros(LANES, np.uint32), np.zeros(LANES, bool)
    bits = np.broadcast_to(value.bits, (1, value.bits.shape[1]))[0]
    return np.broadcast_to(bits, LANES).copy(), np.broadcast_to(np.asarray(value.known), (1, LANES))[0].copy()


def verdict(text: str, recorded: list[dict[int, np.ndarray]], left_out: int) -> tuple[str, str]:
    """Return equal, different or unknown, and where."""
    unknown = False
    for dataset, rows in enumerate(recorded):
        words, given = contents(dataset)
        ours, known = computed(text, dataset)
        if not known:
            return "unknown", "not emulated"
        unchanged = before(words, given)
        for row in {*rows, *ours}:
            theirs = rows.get(row, unchanged[row])
            if (
                (row >= UNIFORMS and left_out >= 2)
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
    left_out = WAYS.index(results.pop(""))
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


def digest(states: list[dict[int, np.ndarray]]) -> str:
    """Return a digest of the rows that are not as before, dataset by dataset."""
    made = hashlib.sha256()
    for dataset, rows in enumerate(states):
        unchanged = before(*contents(dataset))
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
    return digest(states)


def keep(out: Path) -> int:
    """Write the digests of what was executed."""
    results = pickle.loads(lzma.decompress(out.read_bytes()))
    if results.pop("") != WAYS[0]:
        raise SystemExit("not all of the state was stored")
    content = {text: digest(recorded) for text, recorded in sorted(results.items())}
    KEPT.write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")
    print(f"{len(content)} instructions, {KEPT.stat().st_size:,} bytes")
    return 0


def check() -> int:
    """Compare the digests that are kept."""
    tally: dict[str, int] = {}
    for text, recorded in json.loads(KEPT.read_text(encoding="utf-8")).items():
        here = digest_here(text)
        said = "unknown" if not here else "equal" if here == recorded else "different"
        tally[said] = tally.get(said, 0) + 1
        if said != "equal":
            print(f"{said:9} {text}")
    print(tally)
    return 1 if tally.get("different") else 0


def main(arguments: list[str]) -> int:
    if not arguments:
        return check()
    if arguments[:1] == ["--keep"]:
        return keep(Path(arguments[1]))
    if arguments[:1] == ["--choose"]:
        return choose(Path(arguments[1]), Path(arguments[2]))
    if arguments[:1] == ["--run"]:
        return run(Path(arguments[1]), Path(arguments[2]))
    if arguments[:1] == ["--part"]:
        return part(Path(arguments[1]), Path(arguments[2]), int(arguments[3]), arguments[4])
    return compare(Path(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
