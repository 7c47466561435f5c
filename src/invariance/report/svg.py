"""Pictures of matplotlib as elements of a page: the same bytes every time, no id twice, text as text, and small.

What is drawn as text may hold whatever a name holds, quotes too: only tags are rewritten.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING

from .._tools.figures import missing_glyphs_allowed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# One font that every picture is measured with; the page names it once for all of them.
_FONT = "DejaVu Sans"
_NAMED_FONT = f"font-family:'{_FONT}', sans-serif;"
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)pt" height="([\d.]+)pt"')
_LEFT_OUT = re.compile(r'<style type="text/css">.*?</style>|<!--.*?-->', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_ID = re.compile(r' id="([^"]*)"')
_NOTHING = ("<g/>", "<defs/>")
_INVISIBLE = re.compile(r'<path d="[^"]*" style="fill:none"/>')
_STYLE = re.compile(r' style="([^"]*)"')
_REFERENCE = re.compile(r'(?:url\(|href=")#([^)"]*)')


def inline_svg(figure: Figure, prefix: str, alt: str) -> str:
    """An <svg> element without a background. prefix: one letter, which tells its ids and
    classes from those of other pictures of the page."""
    text = _drawn(figure)
    text = text[text.index("<svg") :]
    size = _SIZE.match(text)
    assert size is not None
    width, height = (round(float(points) * 96 / 72) for points in size.groups())
    body = _LEFT_OUT.sub("", text[text.index(">") + 1 : text.rindex("</svg>")])
    body = _without_bare_groups(_TAG.sub(lambda tag: _shorter(tag[0]), _own_ids(body, prefix)))
    body = _styled_once(body, prefix)
    head = f'<svg role="img" aria-label="{escape(alt)}" viewBox="0 0 {size[1]} {size[2]}"'
    return f'{head} width="{width}" height="{height}">{body}</svg>'


def _drawn(figure: Figure) -> str:
    import matplotlib as mpl

    written = BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "font.sans-serif": [_FONT]}), missing_glyphs_allowed():
        figure.savefig(written, format="svg", metadata=_NO_METADATA, transparent=True)
    return written.getvalue().decode("utf-8")


def _own_ids(body: str, prefix: str) -> str:
    """Ids that something refers to, which are others every time, become the prefix and a number; all others go."""
    used = {name: f"{prefix}{n}" for n, name in enumerate(dict.fromkeys(_found(_REFERENCE, body)))}
    body = _in_tags(_ID, lambda match: f' id="{used[match[1]]}"' if match[1] in used else "", body)
    return _in_tags(_REFERENCE, lambda match: match[0].removesuffix(match[1]) + used[match[1]], body)


def _styled_once(body: str, prefix: str) -> str:
    """Styles that occur more than once as classes."""
    often = [style for style, n in Counter(_found(_STYLE, body)).items() if n > 1]
    names = {style: f"{prefix}-{n}" for n, style in enumerate(often)}
    body = _in_tags(_STYLE, lambda match: f' class="{names[match[1]]}"' if match[1] in names else match[0], body)
    return f"<style>{''.join(f'.{name}{{{style}}}' for style, name in names.items())}</style>{body}"


def _found(pattern: re.Pattern[str], body: str) -> list[str]:
    return [found for tag in _TAG.findall(body) for found in pattern.findall(tag)]


def _in_tags(pattern: re.Pattern[str], change: Callable[[re.Match[str]], str], body: str) -> str:
    return _TAG.sub(lambda tag: pattern.sub(change, tag[0]), body)


def _shorter(tag: str) -> str:
    """A tag with coordinates to a hundredth of a point, and without what says nothing."""
    tag = re.sub(r"\s+", " ", tag).replace("xlink:href", "href").replace(": ", ":").replace("; ", ";")
    tag = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", tag).replace(_NAMED_FONT, "")
    if "base64" in tag:
        return tag
    return re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag)


def _without_bare_groups(body: str) -> str:
    """Without groups that have no attribute, without what cannot be seen and without the lines between tags."""
    kept, opened = [], []
    for piece in re.split(r"(<[^>]*>)", body):
        if piece in _NOTHING or _INVISIBLE.fullmatch(piece):
            continue
        if piece.startswith("<g"):
            opened.append(piece != "<g>")
            piece = piece if opened[-1] else ""
        elif piece == "</g>":
            piece = piece if opened.pop() else ""
        kept.append("" if piece.isspace() else piece)
    return "".join(kept).replace("<defs></defs>", "")
