"""Limits of what users type: digits, lengths, sizes of buffers. All are said before anything is computed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.base.errors import BadCatalog, BadFile, BadProblem, UsageError
from ncu_swizzle.base.validate import whole
from ncu_swizzle.gate import baseline
from ncu_swizzle.kernels import arguments, fills, naming
from ncu_swizzle.kernels.family import Argument, Parameter
from ncu_swizzle.kernels.limits import evaluate
from ncu_swizzle.reports import many_launches
from ncu_swizzle.sweep import plan
from tests.support.own_kernel import own
from tests.support.process import command
from tests.support.refusals import refused, unlike
from tests.support.reports import EMPTY

HUGE = "1" + "0" * 5000  # more digits than Python reads
LARGE = "9" * 4000  # more than it computes with in floating point
DIGITS = (HUGE, LARGE, "9" * 30, str(1 << 63))


def test_no_number_has_more_than_64_bits() -> None:
    for digits in DIGITS:
        for expression in (digits, f"n + {digits}", f"-1 - {digits}"):
            with pytest.raises(BadCatalog, match="64 bits"):
                evaluate(expression, {"n": 1})
        with pytest.raises(ValueError, match="64 bits"):
            whole(digits)
        with pytest.raises(UsageError, match="64 bits"):
            plan.sizes([f"n={digits}"])
        for criterion in baseline.LIMITS:
            with pytest.raises(UsageError, match="64 bits"):
                baseline.parse_rule(criterion, digits)
        with pytest.raises(BadProblem, match="64 bits"):
            Parameter("n", 64).validated(10 ** min(len(digits), 6000))


def test_no_result_has_more_than_64_bits() -> None:
    for expression in ("n*n", "n*n*n*n*n*n", "*".join(["n"] * 400)):
        with pytest.raises(BadCatalog, match="64 bits"):
            evaluate(expression, {"n": 1 << 62})
    assert evaluate("n * 2 - 1 + 1", {"n": (1 << 62) - 1}) == (1 << 63) - 2


def test_deep_and_long_expressions_are_refused() -> None:
    for text in ("(" * 5000, "-" * 9000 + "1", "1+" * 4999 + "1", "n*" * 100_000 + "1", "~" * 200_000):
        with pytest.raises(BadCatalog) as error:
            evaluate(text, {"n": 1})
        assert len(str(error.value)) < 400, text[:2]


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
    for file in [*tmp_path.glob("*.npy"), Path("x" * 100_000 + ".npy"), Path("a\0.npy")]:
        with pytest.raises(BadFile, match="cannot be read"):
            fills.load(str(file))


def test_patterns_that_do_not_compile_are_refused() -> None:
    for text in ("(", "(" * 100_000, "a{99999999999999999999}", "[", "(?P<a>x)(?P<a>y)"):
        with pytest.raises(UsageError, match="regular expression"):
            baseline.pattern(text, "--kernel-name")
        with pytest.raises(UsageError, match="regular expression"):
            many_launches.matches(EMPTY, f"regex:{text}")


@pytest.mark.long  # a dozen commands
def test_the_command_line_says_so_too(tmp_path: Path) -> None:
    source = own(tmp_path)
    usual = ["--grid", "1", "--block", "32", "--problem", "n=64", "--arg", "x=float32[n,n]:random"]
    for options in (
        ["--grid", HUGE], ["--grid", LARGE], ["--block", HUGE], ["--shared", HUGE], ["--shared", "10000000000"],
        ["--problem", f"n={HUGE}"], ["--problem", f"n={LARGE}"], ["--problem", "n=" + "9" * 18], ["--arg", f"z={HUGE}"],
        ["--arg", f"z=int32[n]:{HUGE}"], ["--max-degree", LARGE],
    ):  # fmt: skip
        done = command("lint", source.name, *usual, *options, folder=tmp_path)
        assert done.returncode == 2, done.stderr
        assert len(done.stderr) < 1500, options[0]


def test_files_say_so_too(tmp_path: Path) -> None:
    def told(text: str) -> str:
        plain = "" if "problem" in text else "problem = { n = 99999 }"
        own(tmp_path, f'[kernel.k]\nsource = "my.cu"\ngrid = "1"\nblock = "32"\n{plain}\n{text}\n')
        return refused(naming.everything, start=tmp_path)

    texts = (
        f"problem = {{ n = {LARGE} }}", f'problem = {{ n = "{LARGE}" }}', f'shared = "{LARGE}"',
        f'compute_capability = "{LARGE}.0"', f'args = ["x=float32[{LARGE}]:out"]', 'args = ["x=float32[n*n*n*n]:out"]',
    )  # fmt: skip
    assert not unlike(dict.fromkeys(texts, r"^(UsageError|BadFile|BadCatalog): (?s:.){1,1400}$"), told)
