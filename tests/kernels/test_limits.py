"""How arguments, sizes and fills are written, which mistakes are told, the limits of what users type, and any text."""

import contextlib
import os
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.attacks.corpus import bytewise, hostile, originals, trees
from ncu_swizzle.base.errors import NcuSwizzleError, UsageError
from ncu_swizzle.base.validate import parse_integer
from ncu_swizzle.gate import baseline
from ncu_swizzle.kernels import arguments, fills, naming, project
from ncu_swizzle.kernels.arguments import parse_arguments, text_of
from ncu_swizzle.kernels.family import DTYPES, Argument, Parameter
from ncu_swizzle.kernels.limits import LaunchShape, Limits, evaluate, refuse_bad_sizes, refuse_oversized, three
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.kernels.project import specs
from ncu_swizzle.reports import pairing
from ncu_swizzle.sweep import plan
from tests.support.own_kernel import own
from tests.support.places import table
from tests.support.properties import chances, examples, holds
from tests.support.refusals import refused, unlike
from tests.support.reports import EMPTY

HUGE = "1" + "0" * 5000  # more digits than Python reads
LARGE = "9" * 4000  # more than it computes with in floating point
DIGITS = (HUGE, LARGE, "9" * 30, str(1 << 63))


def test_no_number_has_more_than_64_bits() -> None:
    for digits in DIGITS:
        expressions = (digits, f"n + {digits}", f"-1 - {digits}")
        refusals: dict[Callable[[str], object], Iterable[str]] = {
            lambda text: evaluate(text, {"n": 1}): expressions,
            lambda text: plan.sizes([text]): [f"n={digits}"],
            lambda criterion, digits=digits: baseline.parse_rule(criterion, digits): baseline.LIMITS,
            lambda text: Parameter("n", 64).validated(10 ** min(len(text), 6000)): [digits],
        }
        for call, texts in refusals.items():
            assert not unlike(dict.fromkeys(texts, "64 bits"), lambda text, call=call: refused(call, text))
        with pytest.raises(ValueError, match="64 bits"):
            parse_integer(digits)


def test_no_result_has_more_than_64_bits_and_no_expression_is_deep_or_long() -> None:
    large = dict.fromkeys(("n*n", "n*n*n*n*n*n", "*".join(["n"] * 400)), "64 bits")
    assert not unlike(large, lambda text: refused(evaluate, text, {"n": 1 << 62}))
    assert evaluate("n * 2 - 1 + 1", {"n": (1 << 62) - 1}) == (1 << 63) - 2
    long = ("(" * 5000, "-" * 9000 + "1", "1+" * 4999 + "1", "n*" * 100_000 + "1", "~" * 200_000)
    assert not unlike(dict.fromkeys(long, r"^BadCatalog: .{,400}\n"), lambda text: refused(evaluate, text, {"n": 1}))


def parsed(text: str, n: int = 4) -> tuple[Argument, ...]:
    return tuple(arguments.parse_arguments([text], Path(), {"n": n}))


def test_absurd_buffers_are_refused() -> None:
    texts = (
        "x=float32[n,n,n,n]:random", "x=float32[n,n,n,n]:arange", "x=float32[n,n,n]:out", "x=uint8[9000000000000]:out",
        "x=bfloat16[n,n,n]:random", f"x=float32[{HUGE}]:out", "x=float32[n*n*n*n*n*n]:zeros",
    )  # fmt: skip
    expected = dict.fromkeys(texts, "^UsageError: argument x: .*(bytes; the limit is|64 bits)")
    assert not unlike(expected, lambda text: refused(parsed, text, 100_000))


def test_content_beyond_the_machine_s_memory_is_refused_before_it_is_made() -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    beyond = min(memory // 4, fills.MOST_BYTES // 4)

    def made(fill: str) -> object:
        return fills.array(Argument(name="x", dtype="float32", shape=(str(beyond),), fill=fill), {})

    contents = ("zeros", "arange", "iota%7", "3", "random%5", "random", "")
    expected = dict.fromkeys(contents, f"^UsageError: .*{4 * beyond:,} bytes; the limit is")
    assert not unlike(expected, lambda fill: refused(made, fill))


def test_numbers_fit_in_their_type() -> None:
    integers = ("inf", "-inf", "nan", "1e999", HUGE, LARGE, "1e30")
    expected = {f"x=int32[n]:{fill}": "^UsageError: .*does not fit in int32" for fill in integers}
    reals = ("x=float32[n]:1e39", "x=float32:1e39", "x=float16[n]:70000", f"x=float64:{LARGE}.")
    expected |= dict.fromkeys(reals, "^UsageError: .*does not fit in float")
    assert not unlike(expected, lambda text: refused(parsed, text))
    (infinite,) = parsed("x=float32[n]:inf")
    assert np.isinf(fills.array(infinite, {"n": 4})).all()


def test_arrays_are_regular_files_of_one_array(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.npy")
    (tmp_path / "zero.npy").symlink_to("/dev/zero")
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "empty.npy").touch()
    (tmp_path / "text.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff{'descr': '<f4'")
    np.savez(tmp_path / "several", a=np.zeros(3), b=np.zeros(4))
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    files = [*map(str, tmp_path.glob("*.npy")), "x" * 100_000 + ".npy", "a\0.npy"]
    assert not unlike(dict.fromkeys(files, "^BadFile: .*cannot be read"), lambda file: refused(fills.load, file))


def test_patterns_that_do_not_compile_are_refused() -> None:
    texts = ("(", "(" * 100_000, "a{99999999999999999999}", "[", "(?P<a>x)(?P<a>y)")
    expected = dict.fromkeys(texts, "^UsageError: .*regular expression")
    assert not unlike(expected, lambda text: refused(baseline.pattern, text, "--kernel-name"))
    assert not unlike(expected, lambda text: refused(pairing.matches, EMPTY, f"regex:{text}"))


def test_files_say_so_too(tmp_path: Path) -> None:
    def told(text: str) -> str:
        plain = "" if "problem" in text else "problem = { n = 99999 }"
        own(tmp_path, f'[kernel.k]\nsource = "my.cu"\ngrid = "1"\nblock = "32"\n{plain}\n{text}\n')
        return refused(naming.catalogue, start=tmp_path)

    texts = (
        f"problem = {{ n = {LARGE} }}", f'problem = {{ n = "{LARGE}" }}', f'shared = "{LARGE}"',
        f'compute_capability = "{LARGE}.0"', f'args = ["x=float32[{LARGE}]:out"]', 'args = ["x=float32[n*n*n*n]:out"]',
    )  # fmt: skip
    assert not unlike(dict.fromkeys(texts, r"^(UsageError|BadFile|BadCatalog): (?s:.){1,1400}$"), told)


N = {"n": 12}
HERE = Path()


def one(text: str, problem: dict[str, int] | None = None) -> Argument:
    (found,) = parse_arguments([text], HERE, problem or N)
    return found


TABLES = table("kernels/arguments.toml")


def test_what_is_written_is_understood() -> None:
    expected = {
        text: Argument(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})
        for text, fields in TABLES["understood"].items()
    }
    assert {text: one(text) for text in expected} == expected


def test_mistakes_name_the_argument_and_a_right_one() -> None:
    said = {
        text: rf"^UsageError: (?=.*rgument).*{wrong}(?s:.*)\n  try: ." for text, wrong in TABLES["mistakes"].items()
    }
    assert not unlike(said, lambda text: refused(one, text))
    beginnings = {text: rf"\n  try: {re.escape(hint)}" for text, hint in TABLES["hints"].items()}
    assert not unlike(beginnings, lambda text: refused(one, text))


def test_a_struct_is_laid_out_as_c_lays_it_out() -> None:
    content = bytes(fills.scalar(one("p=struct:int8:1,int16:-1,int64:n,bool:1,bytes:2,float32:1"), N).tobytes())
    assert content == struct.pack("<bxhxxxxq?2sxf", 1, -1, 12, True, b"", 1.0)
    assert len(fills.scalar(one("p=struct:int64:1,int8:1"), N).tobytes()) == 16  # as in an array of them


def test_an_argument_is_written_as_it_is_read() -> None:
    for text in TABLES["understood"]:
        assert one(text_of(one(text))) == one(text), text


@given(
    st.sampled_from([name for name in DTYPES if name != "bool"]),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.sampled_from(["random", "random%3", "zeros", "ones", "arange%7", "iota%2", "5"]),
    st.integers(0, 2**32 - 1),
)
def test_a_buffer_holds_what_was_asked_for(dtype: str, shape: list[int], fill: str, seed: int) -> None:
    argument = one(f"x={dtype}[{','.join(map(str, shape))}]:{fill}")
    array = fills.array(argument, N, np.random.default_rng(seed))
    assert array.shape == tuple(shape)
    assert array.dtype == fills.numpy_dtype(dtype)
    flat = array.astype(np.float64).ravel()
    count = np.arange(flat.size)
    exact = {"zeros": 0 * count, "ones": 0 * count + 1, "arange%7": count % 7, "iota%2": count % 2, "5": 0 * count + 5}
    if fill in exact:
        assert fills.reproducible(argument)
        assert flat.tolist() == exact[fill].tolist()
    else:
        assert not fills.reproducible(argument)
        again = fills.array(argument, N, np.random.default_rng(seed))
        assert array.tobytes() == again.tobytes()
        assert fill == "random" or set(flat) <= {0, 1, 2}


def test_random_integers_take_all_values() -> None:
    array = fills.array(one("x=uint8[100000]:random"), N, np.random.default_rng(0))
    assert len(np.unique(array)) == 256
    assert set(fills.array(one("x=bool[100]:random"), N, np.random.default_rng(0))) == {False, True}


def test_a_file_is_taken_as_it_is_or_refused(tmp_path: Path) -> None:
    saved = np.arange(6, dtype=np.int16).reshape(2, 3)
    np.save(tmp_path / "a b.npy", saved)
    (short,) = parse_arguments(["x=a b.npy"], tmp_path, {})
    (long,) = parse_arguments(["x=int16[2,n]:a b.npy:out"], tmp_path, {"n": 3})
    assert (short.dtype, short.shape, short.output) == ("int16", ("2", "3"), False)
    assert long.output
    for argument in (short, long):
        assert fills.array(argument, {"n": 3}).tolist() == saved.tolist()
    with pytest.raises(UsageError, match=r"holds int16\[2, 3\], not int16\[3, 2\]"):
        parse_arguments(["x=int16[3,2]:a b.npy"], tmp_path, {})
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(UsageError, match="cannot be read"):
        parse_arguments(["x=objects.npy"], tmp_path, {})


def test_a_struct_has_the_bytes_of_a_file_or_zeros(tmp_path: Path) -> None:
    (tmp_path / "params.bin").write_bytes(b"\x01\x02\x03")
    (tmp_path / "params").write_bytes(b"12345")
    texts = ("p=bytes:params.bin", "q=bytes:params", "r=bytes:n//4")
    arguments = parse_arguments(texts, tmp_path, N)
    values = [fills.scalar(argument, N).tobytes() for argument in arguments]
    assert values == [b"\x01\x02\x03", b"12345", bytes(3)]
    assert [argument.file for argument in arguments] == [str(tmp_path / "params.bin"), str(tmp_path / "params"), ""]
    written = [text_of(argument) for argument in arguments]
    assert parse_arguments(written, Path(), N) == arguments


def test_names_are_distinct_and_tolerances_are_of_outputs() -> None:
    (found,) = parse_arguments(["y=float32[n]:out"], HERE, N, {"y": 0.25})
    assert found.tolerance == 0.25
    assert "'x' is not an output" in refused(parse_arguments, ["y=float32[n]:out"], HERE, N, {"x": 0.25})
    assert "two arguments are called 'x'" in refused(parse_arguments, ["x=1", "x=2"], HERE, N)


def test_sizes_left_away_are_one_and_those_that_no_gpu_takes_are_told() -> None:
    assert three("n//32, 8", "grid") == ("n//32", "8", "1")
    assert three([8], "block") == ("8", "1", "1")
    counts = dict.fromkeys(("", "1,2,3,4", "1,,2", ","), "^UsageError: .*one to three sizes")
    assert not unlike(counts, lambda text: refused(three, text, "grid"))
    sizes = {
        (("m", "1", "1"), "grid"): "there is no size 'm'",
        (("0", "1", "1"), "grid"): "0 is 0, outside 1 to",
        (("1", "65536", "1"), "grid"): "65536 is 65536",
        (("1", "1", "65"), "block"): "1 to 64",
        (("n*100", "1", "1"), "block"): "1200, outside 1 to 1024",
    }
    told = {row: rf"^UsageError(?s:.*{said}.*)  try: .*(--{row[1]}|--problem)" for row, said in sizes.items()}
    assert not unlike(told, lambda row: refused(refuse_bad_sizes, *row, N))


def test_a_launch_beyond_the_limits_is_told() -> None:
    limits = Limits(threads=512, shared=101376, static=4096)
    expected = {
        ((32, 16, 1), 97280): "accepted",
        ((32, 32, 1), 0): r"32 x 32 x 1 has 1,024 threads; this kernel allows at most 512",
        ((32, 1, 1), 97281): r"97,281 bytes of dynamic shared memory plus 4,096 bytes of static",
    }

    def told(row: tuple[tuple[int, ...], int]) -> str:
        return refused(refuse_oversized, "fn", LaunchShape(grid=(1,), block=row[0], shared=row[1]), limits)

    assert not unlike(expected, told)


SIZES = {"n": 8, "m": 3}
HOSTILE = st.sampled_from((*hostile.VALUES["expressions"], *hostile.VALUES["arguments"]))
TEXTS = st.text(max_size=40) | st.text(alphabet="nm0189+-*/%() ,:=[]xfloatin32_.e", max_size=40) | HOSTILE


@examples
def test_any_expression_is_an_integer_or_refused(examples: int) -> None:
    def check(text: str) -> None:
        with contextlib.suppress(NcuSwizzleError):
            value = evaluate(text, SIZES)
            assert type(value) is int
            str(value)

    holds(examples, check, TEXTS)


Expression = tuple[str, int]
LEAVES = st.integers(0, 2**31).map(lambda value: (str(value), value)) | st.sampled_from([("n", 8), ("m", 3)])


def _together(parts: tuple[Expression, str, Expression]) -> Expression:
    (left, a), operation, (right, b) = parts
    values = {"+": a + b, "-": a - b, "*": a * b, "//": a // b if b else 0, "%": a % b if b else 0}
    return f"({left}) {operation} ({right})", values[operation]


@examples
def test_an_expression_has_the_value_that_it_has_in_python(examples: int) -> None:
    def check(expression: Expression) -> None:
        text, value = expression
        try:
            found = evaluate(text, SIZES)
        except NcuSwizzleError:
            assert "//" in text or "%" in text or abs(value) > 2**31, (
                "only a division by zero or a huge number is refused"
            )
        else:
            assert "// (0)" in text or "% (0)" in text or found == eval(text, {}, dict(SIZES)), text

    operations = st.sampled_from(["+", "-", "*", "//", "%"])
    holds(
        examples,
        check,
        st.recursive(LEAVES, lambda part: st.tuples(part, operations, part).map(_together), max_leaves=6),
    )


@examples
def test_any_argument_is_understood_or_refused(examples: int) -> None:
    def check(texts: Sequence[str]) -> None:
        with contextlib.suppress(NcuSwizzleError):
            for argument in arguments.parse_arguments(texts, Path("/nowhere"), SIZES):
                if argument.shape:
                    assert all(size >= 1 for size in fills.shape(argument, SIZES))
                else:
                    assert fills.scalar(argument, SIZES).dtype == fills.numpy_dtype(argument.dtype)

    holds(examples, check, st.lists(TEXTS, max_size=3))


def _settings(file: Path) -> None:
    with contextlib.suppress(NcuSwizzleError):
        settings = project.project_in(file)
        for spec in specs(settings):
            assert spec.name
        naming.catalogue(CatalogOptions(str(file)))


@examples
def test_any_settings_are_read_or_refused(examples: int, tmp_path: Path) -> None:
    content, file = originals.project(), tmp_path / "ncu-swizzle.toml"

    def check(damage: str, chance: Random) -> None:
        if damage == "wanted":
            file.write_bytes(trees.toml(trees.with_wanted(content, chance)))
        elif damage == "a hostile value":
            changed = trees.with_hostile_value(content, chance)
            file.write_bytes(trees.toml(changed if isinstance(changed, dict) else {}))
        else:
            whole = trees.toml(content)
            file.write_bytes(bytewise.TEXT[damage](whole, whole, chance))
        _settings(file)

    holds(examples, check, st.sampled_from(["wanted", "a hostile value", *bytewise.TEXT]), chances)
