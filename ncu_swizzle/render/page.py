"""The report: a `Comparison` as one HTML file. Only this module imports Jinja and Pygments.

The page is complete without JavaScript; its content security policy allows one script, by hash.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Literal, Name, Number, _TokenType, is_token_subtype

from ncu_swizzle import cache as user_cache
from ncu_swizzle import paths
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import banks, card, document
from ncu_swizzle.render.view.source import Line, Token
from ncu_swizzle.smem.bankmap import BankMap
from ncu_swizzle.tiles import lookup
from ncu_swizzle.tiles.declaration import Tile

# The first match gives a token's CSS class; other tokens are plain.
_KINDS = (
    (Comment.Preproc, "pre"),
    (Comment.PreprocFile, "pre"),
    (Comment, "com"),
    (Keyword.Type, "typ"),
    (Keyword, "key"),
    (Name.Class, "typ"),
    (Name.Function, "fun"),
    (Number, "num"),
    (Literal, "str"),
)

HEAD, LEAST_WIDTH = 56, 480  # pixels: the height of a picture's title, the width of its text


def render(comparison: Comparison) -> str:
    """Return the report as one self-contained HTML document; the same comparison gives the same bytes."""
    return _page("report.html", report=document.build(comparison, highlight, declared_tiles))


def render_all(comparisons: Sequence[Comparison], notes: Sequence[str] = (), title: str = "") -> str:
    """Return several comparisons as one HTML document: a table of all and the worst in full; one as `render` does."""
    if len(comparisons) == 1:
        return render(comparisons[0])
    title = title or f"{len(comparisons)} kernels"
    return _page("kernels.html", page=document.build_page(comparisons, notes, title, highlight, declared_tiles))


def _page(template: str, **content: object) -> str:
    script = (paths.reports() / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment().get_template(template).render(**content, script=Markup(script), script_hash=digest)


def render_card(profiles: Sequence[Profile], comparison: Comparison | None = None) -> str:
    """Return profiles as a notebook shows them: an HTML fragment with inline styles."""
    return environment().get_template("card.html").render(card=card.card(profiles, comparison))


def render_banks(maps: Sequence[BankMap], title: str) -> str:
    """Return bank maps as one HTML document without scripts."""
    return environment().get_template("banks/page.html").render(pictures=banks.pictures(maps), title=title)


def render_banks_svg(maps: Sequence[BankMap], title: str) -> str:
    """Return bank maps as one SVG, stacked vertically."""
    pictures = banks.pictures(maps)
    tops = [sum(p.height + HEAD for p in pictures[:number]) for number in range(len(pictures) + 1)]
    return (
        environment()
        .get_template("banks/picture.svg")
        .render(
            title=title,
            placed_pictures=tuple(zip(pictures, tops, strict=False)),
            width=max(LEAST_WIDTH, *(picture.width for picture in pictures)),
            height=tops[-1],
        )
    )


def declared_tiles(profile: Profile) -> Sequence[Tile]:
    """Return the tiles of a shipped kernel's launch, for its bank maps; none for any other kernel."""
    return lookup.declared(profile.kernel.family, profile.kernel.name, profile.problem)


def prepare(sources: Mapping[str, str]) -> None:
    """Do the slow parts early: highlight these sources (path → text) and compile the templates."""
    for path, text in sources.items():
        highlight(text, path)
    for name in environment().list_templates(extensions=["html"]):
        environment().get_template(name)


class _Compiled(FileSystemBytecodeCache):
    """Cache of compiled templates; if it is not writable, they are compiled again each time."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)


@cache
def environment() -> Environment:
    """Return the Jinja environment: autoescape on, undefined names are errors."""
    templates = Environment(
        loader=FileSystemLoader(paths.reports()),
        bytecode_cache=_Compiled(str(user_cache.folder() / "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    return templates


def highlight(text: str, path: str) -> Sequence[Line]:
    """Split a source into lines of tokens: as Python if the path ends in .py, else as CUDA C++."""
    return _highlighted(text, "python" if path.endswith(".py") else "cuda")


@lru_cache(maxsize=64)
def _highlighted(text: str, language: str) -> Sequence[Line]:
    lexer = get_lexer_by_name(language)
    lines: list[Line] = []
    line: list[Token] = []
    # get_tokens would drop empty lines at the start and turn lone carriage returns into new lines.
    for _, token, value in lexer.get_tokens_unprocessed(text):
        kind = _kind(token)
        first, *others = value.split("\n")
        _append(line, kind, first)
        for part in others:
            lines.append(tuple(line))
            line = []
            _append(line, kind, part)
    return [*lines, tuple(line)] if line else lines


@cache
def _kind(token: _TokenType) -> str:
    return next((name for parent, name in _KINDS if is_token_subtype(token, parent)), "")


def _append(line: list[Token], kind: str, text: str) -> None:
    """Append text to a line, merging it into a last token of the same kind."""
    if line and line[-1].kind == kind:
        text = line.pop().text + text
    if text:
        line.append(Token(kind, text))
