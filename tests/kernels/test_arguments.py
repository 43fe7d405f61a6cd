"""How arguments, sizes and fills are written, what they mean, and which mistakes are told."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.kernels import fills
from ncu_swizzle.kernels.arguments import parse_arguments, text_of
from ncu_swizzle.kernels.family import DTYPES, Argument
from ncu_swizzle.kernels.limits import LaunchShape, Limits, refuse_bad_sizes, refuse_oversized, three
from tests.support.places import table
from tests.support.refusals import refused, unlike

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
    fields = struct.pack("<bxhxxxxq?2sxf", 1, -1, 12, True, b"", 1.0)
    assert content == fields
    assert len(fills.scalar(one("p=struct:int64:1,int8:1"), N).tobytes()) == 16  # as in an array of them


def test_an_argument_is_written_as_it_is_read() -> None:
    texts = (
        "p=struct:int32:4,float32:1.5", "m=tensormap:float16[n,64]:zeros:out:box=8x64:swizzle=64",
        "x=float32[n]:random", "n=int32:4",
    )  # fmt: skip
    assert [text_of(one(text)) for text in texts] == [*texts]


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
    with pytest.raises(UsageError, match="two arguments are called 'x'"):
        parse_arguments(["x=1", "x=2"], HERE, N)
    (found,) = parse_arguments(["y=float32[n]:out"], HERE, N, {"y": 0.25})
    assert found.tolerance == 0.25
    with pytest.raises(UsageError, match="'x' is not an output"):
        parse_arguments(["y=float32[n]:out"], HERE, N, {"x": 0.25})


# ---------------------------------------------------------------------------------------------- grid and block


def test_sizes_left_away_are_one() -> None:
    assert three("n//32, 8", "grid") == ("n//32", "8", "1")
    assert three([8], "block") == ("8", "1", "1")


def test_sizes_that_no_gpu_takes_are_told() -> None:
    counts = dict.fromkeys(("", "1,2,3,4", "1,,2", ","), "^UsageError: .*one to three sizes")
    assert not unlike(counts, lambda text: refused(three, text, "grid"))
    sizes = {
        (("m", "1", "1"), "grid"): "there is no size 'm'",
        (("0", "1", "1"), "grid"): "0 is 0, outside 1 to",
        (("1", "65536", "1"), "grid"): "65536 is 65536",
        (("1", "1", "65"), "block"): "1 to 64",
        (("n*100", "1", "1"), "block"): "1200, outside 1 to 1024",
    }
    assert not unlike(sizes, lambda row: refused(refuse_bad_sizes, *row, N))
    hints = {row: rf"^UsageError(?s:.*)  try: .*(--{row[1]}|--problem)" for row in sizes}
    assert not unlike(hints, lambda row: refused(refuse_bad_sizes, *row, N))


def test_a_launch_beyond_the_limits_is_told() -> None:
    limits = Limits(threads=512, shared=101376, static=4096)
    refuse_oversized("fn", LaunchShape(grid=(1,), block=(32, 16, 1), shared=97280), limits)
    with pytest.raises(UsageError, match=r"32 x 32 x 1 has 1,024 threads; this kernel allows at most 512"):
        refuse_oversized("fn", LaunchShape(grid=(1,), block=(32, 32, 1)), limits)
    with pytest.raises(UsageError, match=r"97,281 bytes of dynamic shared memory plus 4,096 bytes of static"):
        refuse_oversized("fn", LaunchShape(grid=(1,), block=(32, 1, 1), shared=97281), limits)
