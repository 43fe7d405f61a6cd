"""Hints as their readers take them: what provokes each, and what of it is typed next."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.families import FAMILY
from tests.support.sources import NAMED, TURN_AND_BEYOND

LINE = "ncu-swizzle …"  # the whole command that the hint holds


@dataclass(frozen=True)
class TypedHint:
    """A hint as its source spells it, the command that it comes from, and the parts to type.

    A part is a command, an option with its value for the same command, or "leave out --option". `files` are written,
    `before` is run first. What a part holds in capitals is replaced by `fill`.
    """

    hint: str
    command: tuple[str, ...]
    typed: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()


FILL = {"PROFILE…": "w.json", "FILE.ncu-rep": "k.ncu-rep", "FILE.cu": "turn.cu"}
TURN = TURN_AND_BEYOND[: TURN_AND_BEYOND.index("extern __shared__")]
BOX = "struct Box { double low, high, step; }; __global__ void box(float* y, Box b) { *y = b.low; }"
AT = "struct At { float* y; int n; }; __global__ void at(At a) { if (!a.y) return; a.y[a.n] = 1; }"
MAPPED = "struct alignas(64) Map { char c[128]; }; __global__ void mapped(const __grid_constant__ Map m) {}"
SCALE = "__global__ void scale(float* y, float f) { *y *= f; }"
BOUND = """.version 8.0
.target sm_90
.address_size 64
.visible .entry bound(.param .u64 y) .reqntid 64, 1, 1 { ret; }
"""
SOURCES = {"turn.cu": TURN, "two.cu": TURN_AND_BEYOND, "box.cu": BOX, "scale.cu": SCALE, "named.cu": NAMED,
           "at.cu": AT, "mapped.cu": MAPPED,
           "bound.ptx": BOUND, "nothing.cu": "__global__ void nothing() {}"}  # fmt: skip

ENTRY = '[kernel.turn]\nsource = "turn.cu"\ngrid = 1\nblock = "32,32"\nargs = ["x=float32[1024]:ones", ' \
        '"y=float32[1024]:out", "n=int32:32"]\n'  # fmt: skip
PROJECT = {"ncu-swizzle.toml": ENTRY}
ARGS = ("--arg", "x=float32[1024]:random", "--arg", "y=float32[1024]:out", "--arg", "n=int32:32")
TILE = "(64,64):(64,1)"
EXAMPLE = "--arg x=float32[1024]:random --arg y=float32[1024]:out --arg n=int32:1024"
OUT = ("--engine", "recorded", "--baseline", "none", "--reference", "none")


def _turn(*more: str, grid: str = "1", block: str = "32,32", args: tuple[str, ...] = ARGS) -> tuple[str, ...]:
    return ("profile", "turn.cu", "--engine", "emulated", "--grid", grid, "--block", block, *args, *more)


def _argument(text: str) -> tuple[str, ...]:
    return _turn(args=("--arg", text, *ARGS[2:]))


def _own(source: str, *args: str, block: str = "32") -> tuple[str, ...]:
    given = [part for text in args for part in ("--arg", text)]
    return ("profile", source, "--engine", "emulated", "--grid", "1", "--block", block, *given)


PROPOSED = "{shlex.join((part for text in texts for part in ('--arg', text)))}"
DESCRIBED = (
    # ------------------------------------------------------------------------------- arguments and sizes
    TypedHint(PROPOSED, _turn(args=()), (LINE,)),
    TypedHint("leave out --arg: this kernel takes no arguments", _own("nothing.cu", "5"), (LINE,)),
    TypedHint(EXAMPLE, _argument("x=["), (EXAMPLE,)),
    TypedHint("--arg {name}=float32[1024]:random", _argument("x=float32[]:out"), ("--arg x=float32[1024]:random",)),
    TypedHint(
        "--arg {name}={dtype}[{','.join(shape)}]:random for an input, :out for an output; also "
        "{', '.join(fills.KINDS)}",
        _argument("x=float32[1024]"),
        ("--arg x=float32[1024]:random",),
    ),
    TypedHint(
        "--arg p=bytes:24, or a file: p=bytes:FILE",
        _own("box.cu", "y=float32[1]:out", "p=bytes[24]:zeros"),
        ("--arg p=bytes:24",),
    ),
    TypedHint(f"one of {{', '.join(DTYPES)}}; for example {EXAMPLE}", _argument("x=flaot[4]:random"), (EXAMPLE,)),
    TypedHint("define it: --problem {lacking[1]}=1024", _argument("x=float32[rows]:random"), ("--problem rows=1024",)),
    TypedHint(
        "--problem {self.name}={self.default}",
        ("profile", "kernel2", *OUT, "--problem", "seq=100"),
        ("--problem seq=4096",),
    ),
    TypedHint(
        "leave out --problem: no size is described",
        ("profile", "turn", "--engine", "emulated", "--problem", "q=2"),
        ("leave out --problem",),
        PROJECT,
    ),
    TypedHint(
        "--arg {argument.name}={argument.dtype}:{min(max(whole, least), most)}, or a larger type in the kernel",
        _turn(args=(*ARGS[:4], "--arg", "n=int32:-99999999999")),
        ("--arg n=int32:-2147483648",),
    ),
    TypedHint(
        "as many as the parameter has: --arg {argument.name}=bytes:24",
        _own("box.cu", "y=float32[1]:out", "b=bytes:0"),
        ("--arg b=bytes:24",),
    ),
    TypedHint(
        "--arg {name}=struct:uint64:0,int32:4, or its bytes from a file: {name}=bytes:FILE",
        _own("at.cu", "a=struct:float32[4]:out,int32:4"),
        ("--arg a=struct:uint64:0,int32:4",),
    ),
    TypedHint(  # of a field: the whole struct is spelled
        "--arg {argument.name}={argument.dtype}:{min(max(whole, least), most)}, or a larger type in the kernel",
        _own("box.cu", "y=float32[1]:out", "b=struct:float64:1,int8:200,float64:3"),
        ("--arg b=struct:float64:1,int8:127,float64:3",),
    ),
    TypedHint(
        "--arg {name}=tensormap:float16[64,64]:random:box=64x64:swizzle=128",
        _own("mapped.cu", "m=tensormap:float16[64,64]:random"),
        ("--arg m=tensormap:float16[64,64]:random:box=64x64:swizzle=128",),
    ),
    TypedHint("--arch sm_90", _turn("--arch", "90"), ("--arch sm_90",)),
    TypedHint(
        "leave out --arch",
        ("profile", "swizzle-out/turn/turn.cubin", *_turn("--arch", "sm_80")[2:]),
        ("leave out --arch",),
        before=_turn(),
    ),
    TypedHint(
        "--arg {argument.name}={argument.dtype}{extents}:inf, or a larger type in the kernel",
        _own("scale.cu", "y=float32[1]:out", "f=float32:1e99"),
        ("--arg f=float32:inf",),
    ),
    TypedHint(
        "--arg {argument.name}={argument.fill} uses the file's dtype and shape",
        _argument("x=float32[4]:a.npy"),
        ("--arg x=WORK/a.npy",),
    ),
    TypedHint("--shared 49152", (*_turn(), "--shared=-1"), ("--shared 49152",)),
    TypedHint(
        "--{what} {USUAL[what]}; sizes may have names, such as n//32", _turn(grid="1,2,3,4"), ("--grid 128,128",)
    ),
    TypedHint("--{what} {USUAL[what]}", _turn(block="2000"), ("--block 32,8",)),
    TypedHint(
        "--block {_fitting(block, limits.threads)}; __launch_bounds__ in the source makes the compiler use fewer "
        "registers, for a larger one",
        _turn(block="32,64"),
        ("--block 32,32,1",),
    ),
    TypedHint(
        "--shared {limits.shared - limits.static} is the most for this kernel; {1024} more bytes per block are "
        "CUDA's own",
        (*_turn(), "--shared", "400000"),
        ("--shared 228352",),
    ),
    TypedHint(
        "--block {','.join(map(str, attributes.required_block))}",
        _own("bound.ptx", "y=float32[1]:out"),
        ("--block 64,1,1",),
    ),
    # ------------------------------------------------------------------------------- kernels and their files
    TypedHint(
        "--kernel {names[0]}, or {init} for all of them",
        ("profile", "two.cu", *_turn()[2:]),
        ("--kernel turn", "ncu-swizzle init two.cu"),
    ),
    TypedHint(
        "{shlex.join(['ncu-swizzle', 'init', *sources])}",
        ("lint", "turn.cu", "two.cu"),
        ("ncu-swizzle init turn.cu two.cu",),
    ),
    TypedHint(
        '--kernel "{near}"',
        (*_own("two.cu", *ARGS[1::2], block="32,32"), "--kernel", "turned"),
        ('--kernel "turn"',),
    ),
    TypedHint(
        'give the full name of one: --kernel "{qualified(named[matching[0]])}"',
        (*_own("named.cu", "x=float32[1]:ones", "y=float32[1]:out", "n=uint32:0"), "--kernel", "fn"),
        ('--kernel "ns::fn<32, float, true>"',),
    ),
    TypedHint("ncu-swizzle list shows all kernels", ("profile", "kernel9"), ("ncu-swizzle list",)),
    TypedHint(
        "name the parent of the families' folders: --catalog kernels for kernels/mine/family.toml",
        ("list", "--catalog", "."),
        ("--catalog kernels",),
        {"kernels/mine/family.toml": FAMILY},
    ),
    TypedHint(
        "--before -DSWIZZLE=0 --after -DSWIZZLE=1",
        (*_turn("--before", "-DA=1", "--after", "-DA=1"),),
        ("--before -DSWIZZLE=0 --after -DSWIZZLE=1",),
    ),
    TypedHint("-D SWIZZLE=1", (*_turn("-D", "1X"),), ("-D SWIZZLE=1",)),
    TypedHint("{error.hint}, or --config none", _turn(), ("--config none",), {"ncu-swizzle.toml": "["}),
    TypedHint(
        "ncu-swizzle profile {matching[0].name}, or --kernel {matching[0].entry or 'NAME'}",
        ("profile", "two.cu", "--engine", "emulated"),
        ("ncu-swizzle profile turn",),
        {
            "ncu-swizzle.toml": ENTRY.replace("turn.cu", "two.cu").replace("grid", 'entry = "turn"\ngrid')
            + ENTRY.replace("turn.cu", "two.cu")
            .replace("kernel.turn", "kernel.other")
            .replace("grid", 'entry = "beyond"\ngrid')
        },
    ),
    TypedHint(
        "ncu-swizzle init {shlex.quote(str(spec.source))} --config new.toml writes what is missing",
        ("lint", "turn"),
        ("ncu-swizzle init WORK/turn.cu --config new.toml",),
        {"ncu-swizzle.toml": ENTRY.replace("grid = 1\n", "")},
    ),
    TypedHint(
        "leave out {typed[0]}, or give a .cu file instead",
        ("profile", "kernel2", *OUT, "--grid", "1"),
        ("leave out --grid",),
    ),
    TypedHint(
        "{shlex.join(['ncu-swizzle', *words[:end], '--trust', *words[end:]])}",
        ("lint", "turn.cu"),
        (LINE,),
        {"ncu-swizzle.toml": ENTRY.replace("grid", 'nvcc = ["--time=-"]\ngrid')},
    ),
    TypedHint(
        "name the file that holds the kernel: ncu-swizzle init my.cu",
        ("init", "none.cu"),
        ("ncu-swizzle init my.cu",),
        {"my.cu": TURN},
    ),
    TypedHint("--config ncu-swizzle.toml", ("init", "turn.cu", "--config", "none"), ("--config ncu-swizzle.toml",)),
    TypedHint("edit it, or write another: --config new.toml", ("init", "turn.cu"), ("--config new.toml",), PROJECT),
    TypedHint(
        "write it to another file: --config new.toml",
        ("init", "turn.cu"),
        ("--config new.toml",),
        {"ncu-swizzle.toml": "kernel = { }\n"},
    ),
    TypedHint(
        "ncu-swizzle profile {text}",
        ("profile", "kernel2", "--engine", "recorded", "--baseline", "turn.cu"),
        (LINE,),
        PROJECT,
    ),
    TypedHint("--elem {own}", ("predict", "turn", "--pad", "1", "--elem", "2"), ("--elem 4",), PROJECT),
    TypedHint(
        "omit --swizzle and --pad, or name a layout",
        ("predict", "kernel1", "--swizzle", "3,3,3"),
        ("leave out --swizzle",),
    ),
    # ------------------------------------------------------------------------------- engines and programs
    TypedHint(
        "--engine recorded shows it", ("profile", "reference-gemm", "--engine", "emulated"), ("--engine recorded",)
    ),
    TypedHint(
        "--engine emulated",
        ("profile", "bound.ptx", "--grid", "1", "--block", "64", "--arg", "y=float32[1]:out", "--engine", "recorded"),
        ("--engine emulated",),
    ),
    TypedHint(
        "ncu-swizzle list shows what was recorded",
        ("profile", "turn", "--engine", "recorded"),
        ("ncu-swizzle list",),
        PROJECT,
    ),
    TypedHint(
        "leave out --problem, or measure on a machine with a GPU and ncu",
        ("profile", "kernel2", *OUT, "--problem", "seq=1024"),
        ("leave out --problem",),
    ),
    TypedHint("put -- before a program: ncu-swizzle profile -- {kernel}", ("profile", "./app"), (LINE,)),
    TypedHint(
        "put the program's own arguments after its name: ncu-swizzle profile -- ./app --size 4096",
        ("profile", "--problem", "n=1", "--", "./app"),
        (LINE,),
    ),
    TypedHint(
        "ncu-swizzle profile kernel2, or ncu-swizzle profile -- ./app; ncu-swizzle list shows the kernels",
        ("profile",),
        ("ncu-swizzle profile kernel2", "ncu-swizzle profile -- ./app", "ncu-swizzle list"),
    ),
    TypedHint(
        "ncu-swizzle report FILE.ncu-rep shows a report you have",
        ("profile", "--engine", "recorded", "--", "./app"),
        ("ncu-swizzle report FILE.ncu-rep",),
    ),
    TypedHint(
        "replace it with -f, or choose another folder with -o",
        ("profile", "kernel2", *OUT, "-o", "out"),
        ("-f",),
        before=("profile", "kernel2", *OUT, "-o", "out"),
    ),
    TypedHint("{named} --help", ("profile", "--frob"), ("ncu-swizzle profile --help",)),
    # ------------------------------------------------------------------------------- gate
    TypedHint(
        "rewrite it: ncu-swizzle baseline save PROFILE…",
        ("check", "w.json", "--baseline", "none.json"),
        ("ncu-swizzle baseline save PROFILE…",),
    ),
    TypedHint(
        "ncu-swizzle baseline save PROFILE…",
        ("check", "w.json", "--max-regression", "5"),
        ("ncu-swizzle baseline save PROFILE…",),
    ),
    TypedHint(
        "measure on a machine with a GPU and ncu, or pass --allow-recorded",
        ("check", "kernel2", "--engine", "recorded"),
        ("--allow-recorded",),
    ),
    TypedHint("give a file written by ncu-swizzle profile", ("compare", "turn.json"), (), {"turn.json": "{}"}),
    # ------------------------------------------------------------------------------- layouts
    TypedHint("--banks 32, or 4 for a toy", ("banks", TILE, "--banks", "99999"), ("--banks 32",)),
    TypedHint("--elem 1, 2, 4, 8 or 16", ("banks", TILE, "--elem", "3"), ("--elem 1",)),
    TypedHint("--access one of {names}", ("banks", "kernel1", "--access", "nope"), ()),
    TypedHint(
        "ncu-swizzle banks {target.name} draws their layout", ("suggest", "wgmma-128"), ("ncu-swizzle banks wgmma-128",)
    ),
    TypedHint("omit --html, --svg and --json", ("banks", "xor", "--html", "x.html"), ("leave out --html",)),
    TypedHint("name accesses: --write rows:16 --read column", ("predict", TILE), ("--write rows:16 --read column",)),
    TypedHint(
        "name them: --write rows:16 --read ldmatrix",
        ("suggest", TILE, "--elem", "2"),
        ("--write rows:16 --read ldmatrix",),
    ),
    TypedHint(
        "omit --write and --read, or name a layout",
        ("suggest", "transpose-plain", "--write", "rows:16"),
        ("leave out --write",),
    ),
    TypedHint("--problem n=4096", ("predict", "transpose-plain", "--problem", "n=100"), ("--problem n=4096",)),
    TypedHint(
        "--swizzle 3,2,3 for Swizzle<3,2,3>, add:5,0,5 for a rotation, or 128B for TMA's mode",
        ("banks", TILE, "--elem", "2", "--swizzle", "bad"),
        ("--swizzle 3,2,3",),
    ),
)
