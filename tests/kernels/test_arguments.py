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
from tests.support.refusals import refused, unlike

N = {"n": 12}
HERE = Path()


def one(text: str, problem: dict[str, int] | None = None) -> Argument:
    (found,) = parse_arguments([text], HERE, problem or N)
    return found


UNDERSTOOD = {
    "x=float32[n,n]:random": Argument(name="x", dtype="float32", shape=("n", "n"), fill="random"),
    "x = float [ n , n//2 ] : zeros": Argument(name="x", dtype="float32", shape=("n", "n//2"), fill="zeros"),
    "y=half[n]:out": Argument(name="y", dtype="float16", shape=("n",), output=True, tolerance=0.002),
    "h=uint[4]:zeros:out": Argument(name="h", dtype="uint32", shape=("4",), output=True, fill="zeros"),
    "float32[n]:arange": Argument(name="arg1", dtype="float32", shape=("n",), fill="arange"),
    "i=int32[n]:iota%n": Argument(name="i", dtype="int32", shape=("n",), fill="iota%n"),
    "i=int32[n]:-3": Argument(name="i", dtype="int32", shape=("n",), fill="-3"),
    "n=int32:n": Argument(name="n", dtype="int32", value="n"),
    "n": Argument(name="n", dtype="int32", value="n"),
    "n*n": Argument(name="arg1", dtype="int32", value="n*n"),
    "4096": Argument(name="arg1", dtype="int32", value="4096"),
    "-1": Argument(name="arg1", dtype="int32", value="-1"),
    "4096u": Argument(name="arg1", dtype="uint32", value="4096"),
    "4096LL": Argument(name="arg1", dtype="int64", value="4096"),
    "1.5f": Argument(name="arg1", dtype="float32", value="1.5"),
    "1.5": Argument(name="arg1", dtype="float64", value="1.5"),
    "1e-5": Argument(name="arg1", dtype="float64", value="1e-5"),
    "eps=float32:1e-5": Argument(name="eps", dtype="float32", value="1e-5"),
    "true": Argument(name="arg1", dtype="bool", value="1"),
    "p=bytes:24": Argument(name="p", dtype="bytes", value="24"),
    "p=bytes:n*2": Argument(name="p", dtype="bytes", value="n*2"),
    "p=struct:int32:4, float:1.5": Argument(name="p", dtype="struct", value="int32:4,float32:1.5"),
    "struct:n,1.5,bytes:3": Argument(name="arg1", dtype="struct", value="int32:n,float64:1.5,bytes:3"),
    "m=tensormap:half[n,64]:random:box=8x64:swizzle=128": Argument(
        name="m", dtype="float16", shape=("n", "64"), fill="random", tensor_map=True, box=(8, 64), swizzle=128
    ),
    "tensormap:int32[n,n]:zeros:box=4,4": Argument(
        name="arg1", dtype="int32", shape=("n", "n"), fill="zeros", tensor_map=True, box=(4, 4)
    ),
}


def test_what_is_written_is_understood() -> None:
    assert {text: one(text) for text in UNDERSTOOD} == UNDERSTOOD


MISTAKES = {
    "x=flaot32[n]:random": "unknown dtype 'flaot32', did you mean 'float32'",
    "x=float32[n]:randon": "unknown fill 'randon'",
    "x=float32[n]": "does not say how to fill the buffer",
    "x=float32[]:out": "empty size",
    "x=float32[m]:out": "argument x: .*there is no size 'm'",
    "x=float32[n-12]:out": r"argument x: the shape \[0\] is empty",
    "x=float32[n//0]:out": "argument x",
    "m": "argument m: .*there is no size 'm'",
    "n=int32:2147483648": "2147483648 does not fit in int32",
    "n=uint8:-1": "-1 does not fit in uint8",
    "n=int32:__import__('os')": "argument n",
    "i=int32[n]:iota%0": "the fill iota%0 has the modulus 0",
    "i=int32[n]:iota%": "unknown fill",
    "i=uint8[n]:256": "256 does not fit in uint8",
    "x=float32[n]:missing.npy": r"missing\.npy cannot be read",
    "": "is not a valid argument",
    "x=": "is not a valid argument",
    "x:y:z": "unknown dtype 'x'",
    "x=[n]": "is not a valid argument",
    "p=bytes:0": "argument p: 0 bytes: the parameters of a kernel have at most 32,764",
    "p=bytes:32765": "argument p: 32,765 bytes",
    "p=bytes:missing.bin": r"argument p: .*missing\.bin does not exist",
    "p=bytes[24]:zeros": "bytes are a struct passed by value",
    "p=struct:": "is not a valid argument",
    "p=struct:int32:4,float32[n]:out": "argument p: field 2 is not a number",
    "p=struct:int8:200": "argument p: 200 does not fit in int8",
    "m=tensormap:float16[n]:random:box=1x1": "argument m is not a valid tensor map",
    "m=tensormap:float16[n,n]:random": "argument m is not a valid tensor map",
    "m=tensormap:float16[n,n]:random:box=8x8:swizzle=16": "argument m is not a valid tensor map",
}
# A hint about a part spells the whole argument.
HINTS = {
    "m=tensormap:float16[n,n]:box=4x4": "--arg m=tensormap:float16[n,n]:random:box=4x4 for an input",
    "m=tensormap:float16[]:out:box=4x4:swizzle=32": "--arg m=tensormap:float16[64,64]:random:box=4x4:swizzle=32",
    "m=tensormap:float16[n,n]:box=4": "--arg m=tensormap:float16[n,n]:random:box=64x64 for an input",
    "m=tensormap:float16[n,n]:1e9:out:box=4x4": "--arg m=tensormap:float16[n,n]:inf:box=4x4:swizzle=0, or",
    "p=struct:int32:4,int8:200,bool:1": "--arg p=struct:int32:4,int8:127,bool:1, or",
    "x=float16[n]:1e9": "--arg x=float16[n]:inf, or",
}


def test_mistakes_name_the_argument_and_a_right_one() -> None:
    assert not unlike(MISTAKES, lambda text: refused(one, text))
    well_formed = r"^UsageError: .*rgument(?s:.*)\n  try: ."
    assert not unlike(dict.fromkeys(MISTAKES, well_formed), lambda text: refused(one, text))
    beginnings = {text: rf"\n  try: {re.escape(hint)}" for text, hint in HINTS.items()}
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
