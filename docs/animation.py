"""A terminal session as an SVG that plays by itself, by CSS alone: no script, no font, no link, as GitHub wants it."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

COLUMNS = 88
CHARACTER, LINE, MARGIN, HEAD = 7.83, 16.5, 16, 34  # pixels: a character's width and a line's height at 13 px
TYPED_S, SHOWN_S, PAUSE_S = 1.2, 0.06, 0.5  # a command is typed; a line appears; between the command and its output
HIDDEN_AFTER = 0.7  # of the cycle: no scene is longer, and its end hides its lines before that
COLOURS = {1: "#ff7b72", 2: "#7ee787", 3: "#e3b341", 6: "#79c0ff"}  # by the number of ANSI
PLAIN, DIM, BACKGROUND = "#e6edf3", "#8b949e", "#0d1117"
STYLE = f"""
text {{ font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: {PLAIN};
       white-space: pre; }}
.scene {{ opacity: 0; }}
.line {{ animation: line CYCLEs step-end infinite; }}
@keyframes line {{ 0% {{ visibility: visible; }} {HIDDEN_AFTER:.0%} {{ visibility: hidden; }} }}
"""
# Before it begins, in print, and for who wants no motion: the last frame.
STILL = "@media print, (prefers-reduced-motion: reduce) { * { animation: none !important; } }\n"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A command, what it printed (with ANSI colours), and for how long that stays."""

    command: str
    printed: str
    stays_s: float

    def lines(self) -> list[Text]:
        """Return the command and the lines, broken to fit in COLUMNS."""
        printed = [Text.from_ansi(line) for line in self.printed.splitlines()]
        for text in printed:
            text.rstrip()
        return [Text(f"$ {self.command}", Style(bold=True)), *(part for text in printed for part in wrapped(text))]


def wrapped(text: Text) -> Iterator[Text]:
    """Yield a line's parts, broken at the last blank that fits; an empty line is one, too."""
    while len(text) > COLUMNS:
        part, text = text.divide([text.plain.rfind(" ", 0, COLUMNS) + 1 or COLUMNS])
        yield part
    yield text


def svg(scenes: Sequence[Scene], title: str) -> str:
    """Return the picture: each scene's command typed, its output line by line, over and over."""
    shown = [scene.lines() for scene in scenes]
    lengths = [
        TYPED_S + PAUSE_S + SHOWN_S * len(lines) + scene.stays_s for scene, lines in zip(scenes, shown, strict=True)
    ]
    cycle_s = sum(lengths)
    width = 2 * MARGIN + COLUMNS * CHARACTER
    height = HEAD + MARGIN + LINE * max(map(len, shown))
    body: list[str] = []
    keyframes = []
    start_s = 0.0
    for number, (lines, length_s) in enumerate(zip(shown, lengths, strict=True)):
        first, last = start_s / cycle_s, (start_s + length_s) / cycle_s
        keyframes.append(
            f"@keyframes scene{number} {{ 0% {{ opacity: 0; }} {first:.2%} {{ opacity: 1; }} "
            f"{last:.2%} {{ opacity: 0; }} }}\n"
            f"#scene{number} {{ animation: scene{number} {cycle_s:.2f}s step-end infinite; }}\n"
        )
        # A cycle ago, so that the first one is like the others: nothing shows before its time.
        body += [f'<g id="scene{number}" class="scene">', *drawn(lines, start_s - cycle_s), "</g>"]
        start_s += length_s
    last = f"#scene{len(scenes) - 1} {{ opacity: 1; }}\n"
    style = STYLE.replace("CYCLE", f"{cycle_s:.2f}") + last + "".join(keyframes) + STILL
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
            f'height="{height}" role="img" aria-label="{html.escape(title)}">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{style}</style>",
            f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
            *(f'<circle cx="{MARGIN + 6 + 18 * k}" cy="18" r="5.5" fill="#30363d"/>' for k in range(3)),
            *body,
            "</svg>\n",
        ]
    )


def drawn(lines: Sequence[Text], start_s: float) -> Iterator[str]:
    """Yield a scene's lines: the first as if it were typed, character by character, the others one after the other."""
    typed, *printed = lines
    for place, character in enumerate(typed.plain):
        at_s = start_s + TYPED_S * place / len(typed.plain)
        yield row([(place, character, PLAIN, True)], 0, at_s)
    for number, line in enumerate(printed, 1):
        spans = list(coloured(line))
        if spans:
            yield row(spans, number, start_s + TYPED_S + PAUSE_S + SHOWN_S * number)


def row(spans: Sequence[tuple[int, str, str, bool]], number: int, at_s: float) -> str:
    """Return a line of the picture, which appears after `at_s` seconds: column, text, colour, bold of each span."""
    parts = []
    for column, text, colour, bold in spans:
        fill = f' style="fill:{colour}"' if colour != PLAIN else ""
        weight = ' font-weight="700"' if bold else ""
        parts.append(
            f'<tspan x="{MARGIN + column * CHARACTER:.1f}" textLength="{len(text) * CHARACTER:.1f}"{fill}{weight}>'
            f"{html.escape(text)}</tspan>"
        )
    y = HEAD + LINE * (number + 1) - 4
    return f'<text class="line" y="{y}" style="animation-delay:{at_s:.2f}s">{"".join(parts)}</text>'


def coloured(line: Text) -> Iterator[tuple[int, str, str, bool]]:
    """Yield column, text, colour and boldness of each part of a line that looks alike; not the blanks around them."""
    edges = sorted({0, len(line), *(edge for span in line.spans for edge in (span.start, span.end))})
    for first, end in itertools.pairwise(edges):
        styles = [span.style for span in line.spans if span.start <= first < span.end]
        style = Style.combine([Style(), *(style for style in styles if isinstance(style, Style))])
        text = line.plain[first:end]
        if text.strip():
            colour = DIM if style.dim else COLOURS.get(style.color.number or 0 if style.color else 0, PLAIN)
            yield first + len(text) - len(text.lstrip()), text.strip(), colour, bool(style.bold)
