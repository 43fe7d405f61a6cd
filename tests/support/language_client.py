"""An editor: pygls's client, on stdio with the process that a user's editor starts."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Union

from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.protocol import default_converter

from tests.support.places import ROOT

LIMIT_S = 600.0  # of what hangs, not of what is slow


def _converter() -> Any:
    """Return pygls's converter; lsprotocol's own takes every code action with a command for a command."""
    converter = default_converter()

    def action(content: Any, _: type) -> types.CodeAction:
        return converter.structure(content, types.CodeAction)  # type: ignore[no-any-return]

    for union in (types.Command | types.CodeAction, Union[types.Command, types.CodeAction]):  # noqa: UP007
        converter.register_structure_hook(union, action)
    return converter


class EditorClient:
    """A client with one workspace folder, which keeps what the server sends."""

    def __init__(self, root: Path, options: Any = None) -> None:
        self.root, self._options = root, options
        self.client = LanguageClient("test", "1", converter_factory=_converter)
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.progress: list[Any] = []
        self.edits: list[types.ApplyWorkspaceEditParams] = []
        self.messages: list[str] = []
        self._refreshed = asyncio.Event()
        for feature, handler in {
            types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS: self.published.put_nowait,
            types.PROGRESS: self.progress.append,
            types.WINDOW_WORK_DONE_PROGRESS_CREATE: lambda params: None,
            types.WINDOW_SHOW_MESSAGE: lambda params: self.messages.append(params.message),
            types.WORKSPACE_CODE_LENS_REFRESH: lambda params: self._refreshed.set(),
            types.WORKSPACE_APPLY_EDIT: self._apply,
        }.items():
            self.client.feature(feature)(partial(handler))  # a method takes no marks

    def _apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        self.edits.append(params)
        return types.ApplyWorkspaceEditResult(applied=True)

    async def start(self) -> types.InitializeResult:
        """Start the server as ``ncu-swizzle serve lsp`` and greet it."""
        # Without -P, Python itself would look for modules in the workspace; the script ncu-swizzle does not.
        command = (sys.executable, "-P", "-m", "ncu_swizzle", "serve", "lsp")
        await self.client.start_io(*command, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=self.root)
        window = types.WindowClientCapabilities(work_done_progress=True)
        capabilities = types.ClientCapabilities(window=window)
        greeting = types.InitializeParams(
            capabilities, root_uri=self.root.as_uri(), initialization_options=self._options
        )
        result = await asyncio.wait_for(self.client.initialize_async(greeting), LIMIT_S)
        self.client.initialized(types.InitializedParams())
        return result

    async def stop(self) -> None:
        await asyncio.wait_for(self.client.shutdown_async(None), LIMIT_S)
        self.client.exit(None)
        await self.client.stop()

    def open(self, name: str) -> str:
        """Open a file; return its URI."""
        file = self.root / name
        item = types.TextDocumentItem(file.as_uri(), "cuda", 1, file.read_bytes().decode("utf-8"))
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return file.as_uri()

    def change(self, uri: str, text: str, version: int = 2) -> None:
        """Change a file in the editor alone."""
        changes = [types.TextDocumentContentChangeWholeDocument(text)]
        changed = types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(version, uri), changes)
        self.client.text_document_did_change(changed)

    def save(self, name: str, text: str, version: int = 2) -> None:
        """Change a file in the editor and on the disk, and say that it was saved."""
        (self.root / name).write_text(text, "utf-8")
        uri = (self.root / name).as_uri()
        self.change(uri, text, version)
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))

    def close(self, uri: str) -> None:
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    async def diagnostics(self) -> list[types.Diagnostic]:
        """Return the next diagnostics that are published."""
        params = await asyncio.wait_for(self.published.get(), LIMIT_S)
        return list(params.diagnostics)

    async def hover(self, uri: str, line: int) -> str:
        """Return what the editor shows about a line, from 1."""
        where = types.Position(line - 1, 3)
        asked = types.HoverParams(types.TextDocumentIdentifier(uri), where)
        found = await asyncio.wait_for(self.client.text_document_hover_async(asked), LIMIT_S)
        return found.contents.value if found else ""  # type: ignore[union-attr]

    async def fixed(self, uri: str, diagnostic: types.Diagnostic) -> list[str]:
        """Carry out the code actions on a diagnostic; return their titles."""
        context = types.CodeActionContext([diagnostic])
        asked = types.CodeActionParams(types.TextDocumentIdentifier(uri), diagnostic.range, context)
        actions = await asyncio.wait_for(self.client.text_document_code_action_async(asked), LIMIT_S) or ()
        for action in actions:
            assert isinstance(action, types.CodeAction)
            assert action.command
            command = types.ExecuteCommandParams(action.command.command, action.command.arguments)
            await asyncio.wait_for(self.client.workspace_execute_command_async(command), LIMIT_S)
        return [action.title for action in actions]


def session(root: Path, edit: Callable[[EditorClient], Awaitable[None]], *, initialization: Any = None) -> EditorClient:
    """Do something in an editor; return the client with what it was sent. The server must stop when it is told to."""

    async def run() -> EditorClient:
        client = EditorClient(root, initialization)
        await client.start()
        try:
            await edit(client)
        finally:
            await client.stop()
        return client

    return asyncio.run(run())
