"""A repository whose objects are written one by one."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path

from tests.support import repositories

FILE, LINK, FOLDER, SUBMODULE = "100644", "120000", "40000", "160000"
Entry = tuple[str, bytes, str]


class Hostile:
    """A repository that is written object by object: git itself refuses many of these trees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        repositories.git(folder, "init", "-q", "-b", "main")

    def put(self, kind: str, content: bytes) -> str:
        whole = b"%s %d\0" % (kind.encode(), len(content)) + content
        name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        file = self.folder / ".git" / "objects" / name[:2] / name[2:]
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(zlib.compress(whole))
        return name

    def blob(self, content: bytes = b"written by a stranger\n") -> str:
        return self.put("blob", content)

    def tree(self, *entries: Entry) -> str:
        return self.put("tree", b"".join(b"%s %s\0" % (m.encode(), n) + bytes.fromhex(o) for m, n, o in entries))

    def commit(self, tree: str, branch: str = "main", parents: Sequence[str] = ()) -> str:
        above = "".join(f"parent {parent}\n" for parent in parents)
        who = "A <a@b> 1767225600 +0000"
        name = self.put("commit", f"tree {tree}\n{above}author {who}\ncommitter {who}\n\nx\n".encode())
        (self.folder / ".git" / "refs" / "heads" / branch).write_text(f"{name}\n")
        return name
