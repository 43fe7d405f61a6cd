"""The language server: an editor's requests, and its progress while a call runs."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import Interrupted, NcuSwizzleError
from ncu_swizzle.base.texts import in_markdown, one_line
from ncu_swizzle.gate.verdict import BOUNDS, BUILT, MAX_DEGREE, Outcome
from ncu_swizzle.kernels.family import PYTHON
from ncu_swizzle.servers.answer import Answer, Folders, Row, Service, stamp

# Edits that turn one text into another, hunk by hunk: an editor keeps its cursor and folds elsewhere.

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")  # in the protocol, a form feed, say, does not end a line


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, each with its end."""
    return LINE.findall(text)


def edits(before: str, after: str) -> Iterator[types.TextEdit]:
    """Yield an edit of whole lines for each part that differs."""
    old, new = lines_of(before), lines_of(after)
    for tag, first, last, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            where = types.Range(types.Position(first, 0), types.Position(last, 0))
            yield types.TextEdit(where, "".join(new[start:stop]))


# The findings for one source, and whether they still hold.


@dataclass(frozen=True, kw_only=True)
class SeenSource:
    """The rows of `lines` for a source, the text that they describe, and explanations of its lines so far."""

    text: str
    rows: tuple[Row, ...] = ()
    stamps: tuple[tuple[str, int, int], ...] = ()  # of its inputs
    declared: Mapping[str, str] = field(default_factory=dict)  # kernels whose launch is declared, and their sources
    error: str = ""
    explained: dict[tuple[str, int], Answer] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: Answer, text: str) -> SeenSource:
        """Return an answer's rows for a text."""
        stamps = tuple((path, time, size) for path, time, size in answer.facts.get("read", ()))
        return cls(text=text, rows=answer.rows, stamps=stamps, declared=answer.facts.get("declared", {}))

    @property
    def lasts(self) -> bool:
        """Whether none of its inputs has changed since."""
        return bool(self.stamps) and all(stamp(taken[0]) == taken for taken in self.stamps)

    @property
    def lines(self) -> Sequence[Row]:
        """The rows about lines."""
        return [row for row in self.rows if "line" in row]

    def at(self, number: int) -> Iterator[Row]:
        """Yield the rows about a line, counted from 1."""
        return (row for row in self.lines if row["line"] == number)


SOURCE = "ncu-swizzle"
# A definition: CUDA's with its attributes and return type, Python's with only its name.
DEFINITION = re.compile(r"__global__(?:(?!__global__)[^;{}(])*+\(|^[ \t]*+def\s++\w++\s*+\(", re.MULTILINE)
FIX = "ncu-swizzle.fix"  # the command behind the action


def diagnostics(source: SeenSource) -> list[types.Diagnostic]:
    """Return a diagnostic per line that conflicts, cannot be judged, or prevents judging its kernel."""
    lines = lines_of(source.text)
    found_here = [_of_row(row, lines) for row in source.lines if "outcome" in row]
    first = _first_kernel(source.text)
    notes = [row["undeclared"] for row in source.rows if "undeclared" in row]
    found_here += [_diagnostic(note, first, lines, types.DiagnosticSeverity.Hint) for note in notes]
    if source.error:
        found_here.append(_diagnostic(source.error, first, lines, types.DiagnosticSeverity.Error))
    return found_here


def _of_row(row: Row, lines: list[str]) -> types.Diagnostic:
    error = row.get("criterion") in (BOUNDS, BUILT) or row["outcome"] == Outcome.error
    judged = types.DiagnosticSeverity.Error if error else types.DiagnosticSeverity.Warning
    severity = types.DiagnosticSeverity.Information if row["outcome"] == Outcome.inconclusive else judged
    counted = f"{row['wavefronts']:,} wavefronts, {row['ideal']:,} ideal: " if row.get("wavefronts") is not None else ""
    access = f", {row['access']}" if "access" in row else ""
    diagnostic = _diagnostic(f"{row['kernel']}{access}: {counted}{row['message']}", row["line"] - 1, lines, severity)
    if code := row.get("code", ""):
        diagnostic.code, diagnostic.code_description = code, types.CodeDescription(codes.uri(code))
    diagnostic.data = {"kernel": row["kernel"]}
    return diagnostic


def _diagnostic(message: str, line: int, lines: list[str], severity: types.DiagnosticSeverity) -> types.Diagnostic:
    number = min(max(line, 0), max(len(lines) - 1, 0))
    text = lines[number] if lines else ""
    start = len(text) - len(text.lstrip())
    return types.Diagnostic(
        types.Range(types.Position(number, start), types.Position(number, _units(text.rstrip()))),
        one_line(message),
        severity=severity,
        source=SOURCE,
    )


def _units(text: str) -> int:
    """Return the length of a text in UTF-16, as the protocol counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def actions(source: SeenSource, wanted: list[types.Diagnostic]) -> Iterator[types.CodeAction]:
    """Yield an action per source of the conflicting kernels at the cursor."""
    numbers = {diagnostic.range.start.line + 1 for diagnostic in wanted if diagnostic.source == SOURCE}
    rows = [
        row
        for number in numbers
        for row in source.at(number)
        if row.get("outcome") == Outcome.failed and row.get("criterion") == MAX_DEGREE
    ]
    for file in dict.fromkeys(source.declared[row["kernel"]] for row in rows if row["kernel"] in source.declared):
        if not file.endswith(PYTHON):
            title = f"Free {PurePath(file).name} of bank conflicts, if the rewritten kernels are proved"
            command = types.Command(title, FIX, arguments=[file])
            yield types.CodeAction(title, types.CodeActionKind.QuickFix, diagnostics=wanted, command=command)


def hover(rows: list[Row], explained: Answer | None) -> str:
    """Return Markdown about a line: its counts, and which lanes share which bank, now and as suggested."""
    parts = [f"**{in_markdown(row['kernel'])}**, {in_markdown(row['access'])}: {_counts(row)}" for row in rows]
    if explained is not None:
        parts.append(in_markdown(explained.summary))
        parts += [f"- {in_markdown(text)}" for text in _banks(explained)]
    return "\n\n".join(parts)


def _banks(explained: Answer) -> Iterator[str]:
    """Yield a sentence per mapping: `servers.calls` gives each one two rows."""
    mapping = ""
    for row in explained.rows:
        if "mapping" in row:
            mapping = row["mapping"]
        elif "ways" in row:
            lanes = ", ".join(map(str, row["lanes there"]))
            more = f" and {row['and more lanes']} more" if "and more lanes" in row else ""
            yield f"{mapping}: {row['ways']} ways; bank {row['bank']} serves lanes {lanes}{more}"


def _counts(row: Row) -> str:
    wavefronts, ideal = row.get("wavefronts"), row.get("ideal")
    if wavefronts is None or ideal is None:
        return "wavefronts unknown"
    if not wavefronts:
        return "no access to shared memory"
    degree = f", degree {wavefronts / ideal:.4g}" if ideal else ""
    return f"{wavefronts:,} wavefronts, {ideal:,} ideal{degree}"


def _first_kernel(text: str) -> int:
    """Return the line, from 0, on which the first kernel is defined."""
    match = DEFINITION.search(text)
    return text.count("\n", 0, match.end()) if match else 0


# One call at a time: emulations must not compete with each other, or with the user's compilers.

Call = Callable[[threading.Event], Answer]  # makes a call, and ends it once the event is set


class Turns:
    """Calls that wait for each other. A newer one about the same subject ends an older one, or takes its place."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._stops: dict[str, threading.Event] = {}

    async def take(self, subject: str, call: Call) -> Answer:
        """Return a call's answer; raise Interrupted if a newer call about the subject came, or `end` was called."""
        self.end(subject)
        stop = self._stops[subject] = threading.Event()
        try:
            async with self._turn:
                if stop.is_set():
                    raise Interrupted("a newer call took its place")
                return await _to_its_end(call, stop)
        finally:
            if self._stops.get(subject) is stop:
                del self._stops[subject]

    def end(self, subject: str) -> None:
        """End the call about a subject, if there is one."""
        if stop := self._stops.get(subject):
            stop.set()

    def end_all(self) -> None:
        """End every call."""
        for stop in self._stops.values():
            stop.set()


async def _to_its_end(call: Call, stop: threading.Event) -> Answer:
    """Make a call in a thread. If this task is cancelled, the turn is over only when the call's processes are gone."""
    made = asyncio.get_running_loop().run_in_executor(None, call, stop)
    try:
        return await asyncio.shield(made)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([made])
        made.exception()  # it was stopped: its answer is not needed
        raise


NAME = "ncu-swizzle"
CUDA = (".cu", ".cuh")
FRONTENDS = ("triton", "gluon", "numba", "cuda")  # a Python file without these words has no kernels
MARK = "\ufeff"  # before a text in UTF-8; editors do not send it
KEPT = 64  # sources, whose answers are kept after they are closed

OnProgress = Callable[[float, str], None]


class Editor:
    """The open sources of one editor, and their findings."""

    def __init__(self, server: LanguageServer, allow_run: bool, timeout_s: float) -> None:
        self._server = server
        self._allow_run = allow_run
        self._timeout_s = timeout_s
        self._trusted = True
        self._shut_down = False
        self._turns = Turns()
        self._seen: dict[str, SeenSource] = {}

    def initialize(self, params: types.InitializeParams) -> None:
        """Note whether the workspace is trusted, and change to its folder: paths in answers are relative to it."""
        options = params.initialization_options
        options = options if isinstance(options, dict) else {}
        self._trusted = options.get("trusted", True) is True
        if roots := self._roots():
            os.chdir(roots[0])

    def _roots(self) -> list[Path]:
        workspace = self._server.workspace
        named = [folder.uri for folder in workspace.folders.values()] or [workspace.root_uri or ""]
        found = (uris.to_fs_path(uri) for uri in named if uri)
        return [Path(path) for path in found if path and Path(path).is_dir()]

    def _service(self) -> Service:
        return Service(Folders(tuple(self._roots()), self._allow_run), self._timeout_s)

    def _path(self, uri: str) -> str:
        """Return the path of a source that may be read: a kernel's, inside a trusted workspace; else ""."""
        path = uris.to_fs_path(uri) or ""
        if not self._trusted or not path or not self._service().folders.holds(Path(path)):
            return ""
        if Path(path).suffix in CUDA:
            return path
        text = self._text(uri)
        return path if Path(path).suffix == PYTHON and any(word in text for word in FRONTENDS) else ""

    def _text(self, uri: str) -> str:
        return str(self._server.workspace.get_text_document(uri).source)

    async def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        """Publish what is known about a source, or find out."""
        uri = params.text_document.uri
        seen = self._seen.get(uri)
        if seen and seen.lasts and seen.text == self._text(uri) and self._path(uri):
            self._show(uri, seen)
        else:
            await self._look(uri)

    async def saved(self, params: types.DidSaveTextDocumentParams) -> None:
        await self._look(params.text_document.uri)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        """End what runs for a source; its findings stay for when it is opened again."""
        self._turns.end(params.text_document.uri)
        self._publish(params.text_document.uri, [])

    def shut_down(self, _: Any = None) -> None:
        self._shut_down = True
        self._turns.end_all()

    def leave(self, _: Any = None) -> None:
        """Exit at once: pygls would wait for its thread that reads stdin, until the editor closes that.

        Running calls end with this process, see `child`.
        """
        os._exit(0 if self._shut_down else 1)

    async def _look(self, uri: str) -> None:
        """Publish the findings for a source as it is on disk."""
        path = self._path(uri)
        if not path:
            return
        text = _on_disk(path)
        try:
            answer = await self._called(uri, "lines", {"file": path}, f"Bank conflicts of {Path(path).name}")
        except Interrupted:
            return
        except NcuSwizzleError as error:
            seen = SeenSource(text=text, error=f"{error}; {error.hint}" if error.hint else str(error))
        else:
            seen = SeenSource.of(answer, text)
        self._keep(uri, seen)
        self._show(uri, seen)

    def _show(self, uri: str, source: SeenSource) -> None:
        self._publish(uri, diagnostics(source))

    def _keep(self, uri: str, source: SeenSource) -> None:
        self._seen.pop(uri, None)
        self._seen[uri] = source
        if len(self._seen) > KEPT:
            del self._seen[next(iter(self._seen))]  # the oldest

    def _publish(self, uri: str, diagnostics: list[types.Diagnostic]) -> None:
        self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics))

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        """Answer the counts of a line, and the banks of an access that conflicts."""
        uri, number = params.text_document.uri, params.position.line + 1
        seen = self._seen.get(uri)
        rows = [row for row in seen.at(number) if "access" in row] if seen else []
        if not seen or not rows or seen.text != self._text(uri):
            return None
        worst = max(rows, key=lambda row: (row["wavefronts"] or 0) - (row["ideal"] or 0))
        conflicts = (worst["wavefronts"] or 0) > (worst["ideal"] or 0)
        explained = await self._explained(uri, seen, worst["kernel"], number) if conflicts else None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, hover(rows, explained)))

    async def _explained(self, uri: str, seen: SeenSource, kernel: str, number: int) -> Answer | None:
        """Return why a line conflicts; None for captured launches, which `line` cannot explain."""
        key = kernel, number
        if key not in seen.explained:
            given = {"file": self._path(uri), "number": number, "kernel": kernel}
            try:
                seen.explained[key] = await self._called(f"{uri} {number}", "line", given, f"Banks of line {number}")
            except NcuSwizzleError:
                return None
        return seen.explained[key]

    def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        source = self._seen.get(params.text_document.uri)
        return list(actions(source, list(params.context.diagnostics))) if source else []

    async def fix(self, file: str) -> None:
        """Rewrite a source if the result is proved; else say what prevents the proof."""
        uri = uris.from_fs_path(str(file)) or ""
        path, text = self._path(uri), self._text(uri)
        if not path or text != _on_disk(path):
            self._say(f"{Path(str(file)).name} is not as it was saved: save it, then try again")
            return
        try:
            answer = await self._called(f"{uri} fix", "rewrite", {"file": path}, f"Rewriting {Path(path).name}")
        except Interrupted:
            return
        except NcuSwizzleError as error:
            self._say(f"{error}; {error.hint}" if error.hint else str(error), types.MessageType.Error)
            return
        made = {row["file"]: row["text"].removeprefix(MARK) for row in answer.rows}
        if not made or self._text(uri) != text or await self._applied(made):
            self._say(answer.summary)

    async def _applied(self, made: Mapping[str, str]) -> bool:
        """Change all files, by their paths; none, with a message, if one has unsaved changes."""
        changes: dict[str, list[types.TextEdit]] = {}
        for path, text in made.items():
            uri = uris.from_fs_path(str(Path(path).absolute())) or ""
            if self._text(uri) != _on_disk(path) or not self._service().folders.holds(Path(path)):
                self._say(f"{Path(path).name} is not as it was saved: save it, then try again")
                return False
            changes[uri] = list(edits(self._text(uri), text))
        change = types.WorkspaceEdit(changes=changes)
        await self._server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(change, "ncu-swizzle fix"))
        return True

    def _say(self, words: str, how: types.MessageType = types.MessageType.Info) -> None:
        self._server.window_show_message(types.ShowMessageParams(how, one_line(words)))

    async def _called(self, subject: str, name: str, given: dict[str, Any], title: str) -> Answer:
        """Make a call in its turn, with progress that the user can cancel."""
        bar = await _Bar.shown(self._server, title, lambda: self._turns.end(subject))
        call = partial(self._service().call, name, given, bar.tell)
        try:
            return await self._turns.take(subject, call)
        finally:
            bar.done()


class _Bar:
    """Progress in the editor's window; without one that can show it, nothing."""

    def __init__(self, server: LanguageServer, token: str) -> None:
        self._server, self._token = server, token
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def shown(cls, server: LanguageServer, title: str, end: Callable[[], None]) -> _Bar:
        window = server.client_capabilities.window
        token = str(uuid.uuid4()) if window and window.work_done_progress else ""
        if token:
            await server.work_done_progress.create_async(token)
            began = types.WorkDoneProgressBegin(title, percentage=0, cancellable=True)
            server.work_done_progress.begin(token, began)
            server.work_done_progress.tokens[token].add_done_callback(lambda _: end())
        return cls(server, token)

    def tell(self, percent: float, words: str) -> None:
        """Report progress from a call's thread."""
        if self._token:
            report = types.WorkDoneProgressReport(message=words, percentage=int(min(max(percent, 0), 100)))
            self._loop.call_soon_threadsafe(self._server.work_done_progress.report, self._token, report)

    def done(self) -> None:
        if self._token:
            self._server.work_done_progress.tokens.pop(self._token, None)
            self._server.work_done_progress.end(self._token, types.WorkDoneProgressEnd())


def _on_disk(path: str) -> str:
    """Return a source as an editor sees it: with its own line ends, without a byte-order mark."""
    try:
        return Path(path).read_bytes().decode("utf-8", "replace").removeprefix(MARK)
    except OSError:  # a file that was never saved
        return ""


def server(version: str, allow_run: bool, timeout_s: float) -> LanguageServer:
    """Return the server; `start_io` serves."""
    language_server = LanguageServer(NAME, version)
    editor = Editor(language_server, allow_run, timeout_s)
    handlers: dict[str, Callable[..., Any]] = {
        types.INITIALIZE: editor.initialize,
        types.SHUTDOWN: editor.shut_down,
        types.EXIT: editor.leave,
        types.TEXT_DOCUMENT_DID_OPEN: editor.opened,
        types.TEXT_DOCUMENT_DID_SAVE: editor.saved,
        types.TEXT_DOCUMENT_DID_CLOSE: editor.closed,
        types.TEXT_DOCUMENT_HOVER: editor.hover,
        types.TEXT_DOCUMENT_CODE_ACTION: editor.actions,
    }
    for feature, handler in handlers.items():
        language_server.feature(feature)(partial(handler))  # pygls marks what it calls, and a method takes no marks
    language_server.command(FIX)(partial(editor.fix))
    return language_server
