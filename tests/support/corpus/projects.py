"""ncu-swizzle.toml, pyproject.toml and family.toml that want something run, read or written."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.support.corpus import bytewise, commands, hostile, originals, trees
from tests.support.corpus.case import WHOLE, Draft
from tests.support.corpus.hostile import EVIL, RUN

BASELINE = "ncu-swizzle-baseline.json"
NVCC = (
    ["-ccbin", f"./{EVIL}"], [f"-ccbin=./{EVIL}"], [f"--compiler-bindir=./{EVIL}"], [f"-ccbin ./{EVIL}"],
    ["-Xcompiler", f"-wrapper,./{EVIL}"], [f"-Xcompiler=-wrapper,./{EVIL}"], ["--compiler-options",
    "-fplugin=./evil.so"],
    ["--options-file", "options.txt"], ["-optf", "options.txt"], ["--run"], ["-run"], ["-MF", "victim.txt", "-MD"],
    ["-o", "victim.txt"], ["--output-file=victim.txt"], ["-time", "victim.txt"], ["--fdevice-time-trace", "victim.txt"],
    ["--keep", "--keep-dir", "."], ["-odir", "."], ["-Xptxas", "-o,victim.txt"], ["-Xcudafe",
    "--gen_c_file_name=victim.txt"],
    ["-include", "/etc/passwd"], ["-I/"], ["--dryrun"], ["-Xnvlink", "-o"], [f"$({RUN})"], [f"`{RUN}`"], [f"; {RUN}"],
    ["-D", f"X=$({RUN})"], ["-forward-unknown-to-host-compiler", "-wrapper", f"./{EVIL}"],
    ["--allow-unsupported-compiler"],
    ["-ldir", "."], ["--libdevice-directory=."], [f"--nvvm-bin={EVIL}"], ["@options.txt"], ["my.cu"], ["--", "x"],
    ["'"],
    ["-gencode", "arch=compute_10,code=sm_10"], ["--threads", "100000"], ["-maxrregcount=99999999999999999999"],
)  # fmt: skip
OPTIONS_FILE = f"-ccbin ./{EVIL}\n".encode()
EXPRESSIONS = (
    "n ** n ** n", "9 ** 9 ** 9 ** 9", "1 << 10 ** 9", f"__import__('os').system('{RUN}')", "n // 0", "n % 0", "-5",
    "0",
    "(" * 100_000, "-" * 100_000 + "1", "n*" * 20_000 + "n", "+".join(["n"] * 50_000), "10 ** 20", "9" * 5000, "1e9",
    "n if n else 0",
    "[n for n in (1,)]", "n.__class__", "lambda: n", "n\n", "\x1b[31mn", "ｎ", "n and", "0x" + "f" * 5000, "n[0]",
    "f'{n}'",
    "(n := 5)", "max(n, 2)", "60000000", "100000", "2 ** 31", "n, n, n, n", ",,", " ", "1_000", "01",
)  # fmt: skip
ARGUMENTS = (
    "float32[n,n,n,n]:random", "float32[10**9,10**9]:zeros", "x=float32[n]:evil.npy", "x=float32[n]:/dev/zero",
    "x=float32[-1]",
    "x=float32[]", "x=float32[0]", "x=int8[9999999999999999]:ones", "x=float32[n]:random%0",
    "x=int32[4]:99999999999999999999",
    "int32:10**20", "int32:n*10**20", "x=float32[n]:1e400", "x=complex[n]", "=", "x=", "[",
    "x=float32[" + "n," * 10_000 + "n]",
    "1.5f" * 5_000, "9" * 5_000, "x=float32[n]:iota%-1", "x=float32[n,", "x=bool[n]:2", "int64:-2**63-1", "uint8:256",
    "float16:1e9",
)  # fmt: skip
PATHS = (
    "../../../../etc/passwd",
    "/dev/zero",
    "/",
    ".",
    "..",
    "missing.cu",
    "my\x1b[31m.cu",
    "a\0b",
    "x" * 5000,
    EVIL,
    "/proc/self/mem",
    "",
)
REFERENCES = (
    "evil.py:fn",
    "evil",
    "evil:fn",
    "os:system",
    "../evil.py:fn",
    "os.path",
    "evil.py:__class__",
    "/etc/passwd:fn",
)
WANTED = {
    "nvcc": NVCC, "options": NVCC, "grid": EXPRESSIONS, "block": EXPRESSIONS, "shared": EXPRESSIONS,
    "bytes": EXPRESSIONS,
    "flops": EXPRESSIONS, "value": EXPRESSIONS, "args": tuple([text] for text in ARGUMENTS),
    "shape": tuple([e] for e in EXPRESSIONS),
    "source": PATHS, "file": PATHS, "include": tuple([path] for path in PATHS),
    "catalog": tuple([path] for path in PATHS),
    "reference": REFERENCES, "std": ("c++17 -ccbin=./evil.sh", f"$({RUN})", "c++99", "c++17\n-o victim.txt",
    "\x1b[31m"),
    "defines": tuple({name: value} for name, value in (("X", f"$({RUN})"), ("X=1 -ccbin=./evil.sh Y", 1), ("X(a)",
    "a"), ("", ""), ("X", "\n#error"))),
    "headers": (["evil:include"], ["os:../../.."], ["cutlass_library:/etc"], [":"], [""]), "kernel": ("(.*)*X",
    "(a+)+$", "(", "x" * 100_000),
    "fill": ("evil.npy", "/dev/zero", "random%0"), "baseline": PATHS, "dtype": ("complex", "float32]", "\x1b[31m"),
}  # fmt: skip


def with_wanted(content: Any, chance: Random) -> Any:
    """Return the settings with one key saying what its reader should not do; keys that are missing are added."""
    tables = list(_tables(content))
    table, name = chance.choice([(table, name) for table in tables for name in table if name in WANTED])
    if chance.random() < 0.2:
        table, name = chance.choice(tables), chance.choice(list(WANTED))
    return _replaced(content, table, {**table, name: chance.choice(WANTED[name])})


COMPILER = ("nvcc", "nvcc", "nvcc", "std", "defines", "include", "reference")


def with_command(tile: Any, chance: Random) -> Any:
    """Return the entry of a kernel, or of one of its variants, that has its compiler or its reference run something."""
    name = chance.choice(COMPILER)
    if chance.random() < 0.5:
        return {**tile, name: chance.choice(WANTED[name])}
    variants = tile["variant"]
    which = chance.choice(list(variants))
    return {**tile, "variant": {**variants, which: {**variants[which], name: chance.choice(WANTED[name])}}}


def _tables(content: Any) -> list[Any]:
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    own = [content] if isinstance(content, dict) else []
    return own + [table for part in parts for table in _tables(part)]


def _replaced(content: Any, old: Any, new: Any) -> Any:
    if content is old:
        return new
    if isinstance(content, dict):
        return {name: _replaced(part, old, new) for name, part in content.items()}
    return [_replaced(part, old, new) for part in content] if isinstance(content, list) else content


def own_settings(chance: Random) -> Draft:
    """Damage an ncu-swizzle.toml."""
    content = originals.project()
    if chance.random() < 0.25:
        tile = with_command(content["kernel"]["tile"], chance)
        data = trees.toml({**content, "kernel": {"tile": tile}})
        return _draft("ncu-swizzle.toml", data, "a command", chance, commands.compiling("ncu-swizzle.toml", chance))
    data, damage = _toml(content, chance)
    return _draft("ncu-swizzle.toml", data, damage, chance)


def pyproject(chance: Random) -> Draft:
    """Damage a pyproject.toml."""
    content = {"project": {"name": "mine", "version": "1"}, "tool": {"ncu-swizzle": originals.project()}}
    data, damage = _toml(content, chance)
    return _draft("pyproject.toml", data, damage, chance)


def _draft(name: str, data: bytes, damage: str, chance: Random, given: commands.Command | None = None) -> Draft:
    command, outputs = given or commands.planning(name, chance.choice(("tile-swizzled", "my.cu")), chance)
    files = {name: data, **originals.project_files(), "options.txt": OPTIONS_FILE, "victim.txt": b"mine\n"}
    files |= {WHOLE: originals.saved("tma/tma-128"), BASELINE: trees.written(originals.baseline_content("tma/tma-128"))}
    return Draft(damage, "own-kernel", files, command, False, outputs)


def family(chance: Random) -> Draft:
    """Damage a family.toml."""
    source = chance.choice(originals.RECORDED)
    content, other = originals.family(source), originals.family(chance.choice(originals.RECORDED))
    data, damage = _toml(content, chance, other)
    command, outputs = commands.cataloguing("kernels", chance.choice(("mine", "ours")), chance)
    if chance.random() < 0.25:
        head = {**content["family"], **_family_command(chance)}
        data, damage = trees.toml({**content, "family": head}), "a command"
        command, outputs = commands.compiling_family("kernels", "mine", chance)
    files = {**originals.family_files(source), "kernels/ours/family.toml": data, "options.txt": OPTIONS_FILE}
    files[WHOLE] = originals.saved("tma/tma-128")
    return Draft(damage, source, files, command, False, outputs)


def _family_command(chance: Random) -> trees.Content:
    name = chance.choice(("options", "options", "headers", "reference"))
    return {name: chance.choice(WANTED[name])}


def _toml(content: trees.Content, chance: Random, other: trees.Content | None = None) -> tuple[bytes, str]:
    damage = chance.choice(
        ("what it wants", "what it wants", "what it wants", "a hostile value", "hostile texts", *bytewise.TEXT)
    )
    if damage == "what it wants":
        return trees.toml(with_wanted(content, chance)), damage
    if damage == "a hostile value":
        changed = trees.with_hostile_value(content, chance)
        return trees.toml(changed if isinstance(changed, dict) else {"kernel": changed}), damage
    if damage == "hostile texts":
        return trees.toml(trees.with_hostile_texts(content, chance.choice(hostile.TEXTS))), damage
    return bytewise.TEXT[damage](trees.toml(content), trees.toml(other or content), chance), damage
