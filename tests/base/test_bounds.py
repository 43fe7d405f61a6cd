"""Limits that hold: processor time, users' regular expressions, quotations."""

import re
import signal
import time

import pytest

from ncu_swizzle.base import bounds
from ncu_swizzle.base.bounds import NamePattern, OutOfTime, within
from ncu_swizzle.base.errors import UsageError

HANG_S = 60  # generous: without a limit these take hours
HOSTILE = (r"(.*)*X", r"(a|a)*b", r"(\w+\s?)+$", r"(a*)*b", r"^(([a-z])+.)+[A-Z]([a-z])+$")
NAME = "a" * 200 + "!"


def spin() -> None:
    end = time.monotonic() + HANG_S
    while time.monotonic() < end:
        pass
    raise AssertionError("it was not interrupted")


def test_a_limit_interrupts_a_loop_and_a_match_and_restores_what_was_there() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(OutOfTime), within(0.05):
        spin()
    with pytest.raises(OutOfTime), within(0.05):
        re.search(HOSTILE[0], NAME)
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_of_nested_limits_the_earlier_one_counts() -> None:
    with pytest.raises(OutOfTime), within(0.05), within(HANG_S):
        spin()
    with within(HANG_S):
        with pytest.raises(OutOfTime), within(0.05):
            spin()
        assert 0 < signal.getitimer(signal.ITIMER_VIRTUAL)[0] < HANG_S + 1


def test_an_outer_limit_holds_even_if_the_inner_code_swallows_it() -> None:
    def stubborn() -> None:
        with pytest.raises(OutOfTime), within(HANG_S):
            spin()
        spin()

    with pytest.raises(OutOfTime), within(0.05):
        stubborn()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_expression_is_an_error_that_names_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "ALLOWANCE_S", 0.1)
    with pytest.raises(UsageError, match="takes longer than") as error:
        NamePattern(text, "--kernel-name").found_in([NAME] * 3)
    assert text in str(error.value).replace("\\\\", "\\")
    assert NamePattern("a+!", "--kernel-name").found_in([NAME]), "the next expression has all the time again"


def test_many_slow_expressions_share_one_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "ALLOWANCE_S", 0.3)
    slow = [NamePattern(f"(?:a*)*a*a*{number}X", "a rule") for number in range(1000)]
    assert not slow[0].is_one_of(["a" * 18]), "each takes less than the allowance, all of them hours"
    with pytest.raises(UsageError):
        any(pattern.is_one_of(["a" * 18]) for pattern in slow)


def test_an_expression_that_cannot_be_used_is_an_error() -> None:
    for text in ("(", "a{99999999999}", "[" * 400 + "a" * 500, "(" * 900, "a" * 100_000):
        with pytest.raises(UsageError, match="regular expression"):
            NamePattern(text, "--pair").found_in(["a"])


def test_a_quotation_is_short_whatever_was_printed() -> None:
    for log in ("x" * 1_000_000, "error: y\n" * 100_000, "\n" * 100_000, "z " * 500_000):
        said = bounds.last_lines(log)
        assert len(said) <= bounds.LINES * (bounds.CHARACTERS + 1)
        assert said.count("\n") < bounds.LINES
        assert len(bounds.some([log] * 100)) < 10 * bounds.CHARACTERS
    assert bounds.last_lines("one\ntwo\n") == "one\ntwo"
    assert bounds.some(["a", "b"]) == "a, b"


def test_words_are_split_as_in_a_shell_or_refused_at_once() -> None:
    assert bounds.split("-DX='a b' -w", "the option", "example") == ("-DX=a b", "-w")
    for text, said in (("x" * 1_000_000, "1,000,000 characters"), ("x '", "No closing quotation")):
        with within(2.0), pytest.raises(UsageError, match=f"the option .*{said}") as error:
            bounds.split(text, "the option", "example")
        assert error.value.hint == "example"


def test_a_child_that_answers_too_much_is_ended_and_its_answer_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bounds.answer_of("answer = question * 2", "ab", 5) == "abab"
    monkeypatch.setattr(bounds, "LONGEST_ANSWER", 1000)
    assert bounds.answer_of("answer = 'a' * 998", 0, 5) == "a" * 998, "with its quotes it is as long as may be"
    with pytest.raises(OutOfTime):
        bounds.answer_of("answer = 'a' * 999", 0, 5)
    with pytest.raises(OutOfTime):  # it would print forever
        bounds.answer_of("while True: print('a' * 10000)", 0, HANG_S)
    for program in ("print('no JSON'); answer = 0", "print('[' * 900, end=''); sys.exit()", "sys.exit(1)", "1 / 0"):
        with pytest.raises(OutOfTime):
            bounds.answer_of(program, 0, 5)


def test_a_program_that_hangs_or_is_missing_answers_nothing() -> None:
    assert bounds.output_of(["cat"], b"x" * (1 << 20), HANG_S, 1 << 20) == b"x" * (1 << 20)
    assert bounds.output_of(["cat"], b"x" * (1 << 20), HANG_S, (1 << 20) - 1) is None
    assert bounds.output_of(["sleep", str(HANG_S)], b"", 0.2, 100) is None
    assert bounds.output_of(["no-such-program"], b"", HANG_S, 100) is None
    assert bounds.output_of(["false"], b"", HANG_S, 100) is None
