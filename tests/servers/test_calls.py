"""An answer's pages, what a client may have read and run, hints that reach it as calls, and calls in a process."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base import child, errors
from ncu_swizzle.base.bounds import LONGEST_ANSWER
from ncu_swizzle.base.child import Exit
from ncu_swizzle.base.errors import (
    Hint,
    ProgramFailed,
    TimeLimit,
    Typed,
    UnknownKernel,
    Untrusted,
    UsageError,
)
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.servers import answer
from ncu_swizzle.servers.__main__ import CALLS
from ncu_swizzle.servers.answer import ALLOW_RUN, MARK, Answer, Call, Caller, Folders, LaunchGiven, Page, Service
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import ENTRY, LAUNCH


def test_every_tool_is_a_call_and_files_of_one_project_go_together(caller: Caller, folder: Path) -> None:
    assert set(CALLS) >= {"lint", "profile", "explain", "suggest", "check", "compare", "read_report", "list_kernels"}
    (folder / "ncu-swizzle.toml").write_text(ENTRY, encoding="utf-8")
    assert caller.entries(["t.cu", "t.cu"], LaunchGiven()).config == str(folder / "ncu-swizzle.toml")


@pytest.mark.long
@NEEDS_ALL
def test_a_call_in_a_process_tells_how_far_it_is_and_its_errors_say_what_to_send(service: Service) -> None:
    told: list[tuple[float, str]] = []

    def progress(percent: float, words: str) -> None:
        told.append((percent, words))

    linted = service.call("lint", {"files": ["t.cu"], "launch": LAUNCH}, progress)
    assert linted.facts["outcome"] == "fail"
    assert (told[-1][0], told[-1][1][:9]) == (100, "transpose")
    assert service.call("lint", {"files": ["t.cu"]}).facts["outcome"] == "inconclusive"  # of which blocks, nothing says
    with pytest.raises(UsageError, match="no grid and no block") as error:
        service.call("profile", {"kernel": "t.cu"})
    assert error.value.hint == 'list_kernels {"file": "t.cu"} answers what is known of its launch'


def test_a_call_that_answers_too_much_is_an_error_and_odd_lines_are_not_progress(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs(argv: Sequence[str], *_: object, on_output: Callable[[str], None], **__: object) -> Exit:
        for text in ("x" * 100_000, "\n", f"{MARK}[7]\n{MARK}[\n{MARK}7\n{MARK}[50.0, ", '"half"]\n', f"{MARK}{{}}\n"):
            on_output(text)
        with (Path(argv[-1]) / "answer.json").open("wb") as file:
            file.truncate(LONGEST_ANSWER + 1)
        return Exit(0, "the last line")

    monkeypatch.setattr(child, "run", runs)
    told: list[tuple[float, str]] = []
    with pytest.raises(ProgramFailed, match="the last line"):
        service.call("lint", {}, lambda percent, words: told.append((percent, words)))
    assert told == [(50.0, "half")]


CALL = Call("lint", {"files": ["a.cu"]})
ROWS = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.text(max_size=9000) | st.integers() | st.none(), min_size=1), max_size=40
)


def pages(answered: Answer) -> list[Page]:
    first = answer.page(answered, CALL)
    return [first, *(answer.page(answered, CALL, number) for number in range(2, first.pages + 1))]


@pytest.mark.long
@given(ROWS, st.text(max_size=300))
def test_pages_hold_every_row_once_and_none_is_long(rows: list[dict[str, object]], summary: str) -> None:
    shown = pages(Answer(summary=summary, rows=tuple(rows)))
    joined: list[dict[str, object]] = []
    for row in (dict(row) for page in shown for row in page.rows):
        if joined and set(row) <= set(joined[-1]) and joined[-1] != rows[len(joined) - 1]:  # the rest of a long text
            (name,) = row
            joined[-1][name] = f"{joined[-1][name]}{row[name]}"
        else:
            joined.append(row)
    assert joined == rows
    for page in pages(Answer(summary="fine", rows=tuple(rows))):
        assert len(in_json(page.data())) <= answer.MOST_CHARACTERS + answer.LONGEST_TEXT


def test_plain_text_has_pages_of_the_stated_length_and_cut_code_is_whole_when_joined() -> None:
    rows = tuple({"line": f"kernels/my.cu:{number}", "wavefronts": 1000 + number} for number in range(2000))
    first, *others = pages(Answer(summary="2000 lines", rows=rows))
    assert len(others) > 10
    assert all(len(page.text()) <= answer.MOST_CHARACTERS + 100 for page in (first, *others))
    assert first.data()["next"] == {"tool": "lint", "arguments": {"files": ["a.cu"], "page": 2}}
    assert 'next: lint {"files": ["a.cu"], "page": 2}' in first.text()
    assert "next" not in others[-1].data()
    code = "".join(f"line {number};\n" for number in range(2000))
    shown = pages(Answer(summary="code", rows=({"CUDA": code},)))
    assert "".join(row["CUDA"] for page in shown for row in page.rows) == code
    with pytest.raises(UsageError, match="no page 2") as error:
        answer.page(Answer(summary="one"), CALL, 2)
    assert error.value.hint == "page is at least 1 and at most 1"


def test_texts_of_files_reach_the_client_visibly_and_unknown_is_said() -> None:
    shown = answer.page(Answer(summary="a\x1b[2J", rows=({"kernel": "b\u202ec"},)), CALL).text()
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    counts = Answer(summary="counts", rows=({"wavefronts": None, "note": "", "ideal": 0},))
    assert answer.page(counts, CALL).text() == "counts\nwavefronts: unknown, ideal: 0"


OUTSIDE = "outside of the folders"


def test_what_is_inside_may_be_read_and_nothing_outside(folder: Path, outside: Path) -> None:
    here = Folders((folder,))
    assert here.path("t.cu") == Path("t.cu")
    assert here.kernel("t.cu", LaunchGiven()) == here.kernel("kernel2", LaunchGiven()) == "none"
    (folder / "link.cu").symlink_to(outside / "t.cu")
    (folder / "there").symlink_to(outside)
    for name in (str(outside / "t.cu"), f"{'../' * 20}{outside}/t.cu", "link.cu", "there/t.cu"):
        with pytest.raises(Untrusted, match=OUTSIDE) as error:
            here.kernel(name, LaunchGiven())
        assert str(folder) in error.value.hint, name
    with pytest.raises(UsageError, match="not a path"):
        here.path("a\0b")


def test_a_launch_names_nothing_outside_and_has_only_the_fields_that_it_has(folder: Path, outside: Path) -> None:
    data = f"{outside}/data.npy"
    for fields in (
        {"args": [f"in={data}"]},
        {"args": [f"in=float32[4]:{data}"]},
        {"args": [f"p=bytes:{data}"]},
        {"include": [str(outside)]},
    ):
        with pytest.raises(Untrusted, match=OUTSIDE):
            Folders((folder,)).kernel("t.cu", LaunchGiven.of_json(fields))
    with pytest.raises(UsageError, match="no field 'gird'") as error:
        LaunchGiven.of_json({**LAUNCH, "gird": 1})
    assert "grid" in error.value.hint


def test_a_projects_file_names_nothing_outside_and_is_not_sought_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".git").mkdir()
    deep = folder / "sub" / "deep"
    deep.mkdir(parents=True)
    (folder / "ncu-swizzle.toml").write_text(ENTRY, encoding="utf-8")
    only = Folders((folder / "sub",))
    assert Folders((folder,)).config(folder / "sub") == str(folder / "ncu-swizzle.toml")
    assert only.config(folder / "sub") == "none"
    (deep / "ncu-swizzle.toml").write_text(ENTRY.replace('"t.cu"', '"../../t.cu"'), encoding="utf-8")
    monkeypatch.chdir(deep)
    with pytest.raises(Untrusted, match=OUTSIDE):
        only.kernel("mine", LaunchGiven())


def test_nothing_runs_unless_allowed(folder: Path) -> None:
    (folder / "k.py").write_text("raise SystemExit(7)\n", encoding="utf-8")
    safe, trusting = Folders((folder,)), Folders((folder,), allow_run=True)
    with pytest.raises(Untrusted, match="imports that file") as error:
        safe.kernel("k.py::fn", LaunchGiven())
    assert error.value.hint == ALLOW_RUN
    with pytest.raises(Untrusted, match="launches the kernel"):
        safe.engine("ncu")
    assert [safe.engine(name) for name in ("auto", "recorded", "emulated")] == ["emulated", "recorded", "emulated"]
    assert [trusting.engine(name) for name in ("auto", "ncu")] == ["auto", "ncu"]
    trusting.kernel("k.py::fn", LaunchGiven())


def test_what_is_typed_becomes_a_call() -> None:
    hints: list[tuple[Hint | str, str]] = [
        (
            Hint(Typed("ncu-swizzle profile alpha"), ", or ", Typed("--kernel alpha")),
            'profile {"kernel": "alpha"}, or launch={"kernel": "alpha"}',
        ),
        (Typed("--arg x=float32[n]:random --arg n=int32:n"), 'launch={"args": ["x=float32[n]:random", "n=int32:n"]}'),
        (Hint("use smaller sizes: ", Typed("--problem n=64")), 'use smaller sizes: launch={"problem": {"n": 64}}'),
        (Typed("--grid '128, 2'"), 'launch={"grid": "128, 2"}'),
        (Typed("--sample 1"), 'launch={"sample": 1}'),
        (Typed("--kernel 'unbalanced"), "--kernel 'unbalanced"),
        (Typed("--shared 1 --replay-mode kernel"), "--shared 1 --replay-mode kernel"),
        ("name a .cu file, a smaller --problem or --grid", "name a .cu file, a smaller --problem or --grid"),
    ]
    for hint, words in hints:
        error = UsageError("wrong", hint)
        assert answer.hint(error) == words
        assert answer.hint(errors.of_json(errors.as_json(error))) == words, "also of an error of another process"
    for option in ("--timeout", "--budget"):
        own = answer.hint(TimeLimit("slow", Hint("raise the limit with ", Typed(f"{option} SECONDS"))))
        assert own.endswith("the server's option --timeout SECONDS")
    assert "list_kernels" in answer.hint(UnknownKernel("unknown kernel", "ncu-swizzle list shows all kernels"))
