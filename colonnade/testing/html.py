"""Reports as one HTML file: tables and bars, nothing loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from colonnade.testing.timing import Timing, human_seconds

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1d2530; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: 13px; } td, th { padding: .25rem .8rem .25rem 0; text-align: left;
vertical-align: top; border-bottom: 1px solid #e3e7ec; } td.n, th.n { text-align: right;
font-variant-numeric: tabular-nums; }
pre, code { font: 12px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
.scroll { max-height: 28rem; overflow: auto; } .note { color: #5b6673; }
svg text { font: 12px system-ui, sans-serif; fill: #1d2530; }
"""
COLORS = ("#2563a8", "#c96a1b", "#7a8794", "#3d8f5f", "#8c56a3")


def escape(value: object) -> str:
    """Text as HTML."""
    return html.escape(str(value))


def page(title: str, parts: Iterable[str]) -> str:
    """A whole document."""
    head = f"<meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>"
    body = "\n".join(parts)
    return (
        f"<!doctype html>\n<html lang=en><head>{head}</head>\n<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def section(title: str, *parts: str) -> str:
    """A heading and what belongs to it."""
    return f"<h2>{escape(title)}</h2>\n" + "\n".join(parts)


def paragraph(text: str, *, note: bool = False) -> str:
    """A paragraph."""
    return f"<p{' class=note' if note else ''}>{escape(text)}</p>"


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> str:
    """A table; `numbers` are the columns aligned right."""
    kinds = [" class=n" if i in numbers else "" for i in range(len(headers))]
    head = "".join(f"<th{k}>{escape(h)}</th>" for h, k in zip(headers, kinds, strict=True))
    lines = ("".join(f"<td{k}>{escape(c)}</td>" for c, k in zip(row, kinds, strict=True)) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"


@dataclass(frozen=True)
class Bar:
    """A bar from 0 to `value`, with whiskers from `low` to `high`; `text` stands behind it."""

    label: str
    value: float
    low: float
    high: float
    text: str
    color: int = 0


Group = tuple[str, list[Bar]]
"""A title, and the bars below it."""


def bars_of(sides: Mapping[str, Timing]) -> list[Bar]:
    """A bar a side: its median, with whiskers from the 20th to the 80th percentile."""
    return [
        Bar(name, t.p50, t.p20, t.p80, human_seconds(t.p50), color) for color, (name, t) in enumerate(sides.items())
    ]


def floor_bar(seconds: float) -> Bar:
    """The time to move the bytes that must be moved."""
    return Bar("floor (bytes moved)", seconds, seconds, seconds, human_seconds(seconds), 3)


def bars(groups: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """Horizontal bars by group; every group has its own scale, from 0 to its longest bar."""
    left, width, right, line = 170, 460, 210, 22
    parts: list[str] = []
    y = 0
    for title, group in groups:
        y += 24
        parts.append(f'<text x="0" y="{y - 6}" font-weight="600">{escape(title)}</text>')
        scale = width / (max((max(b.value, b.high) for b in group), default=0.0) or 1.0)
        for bar in group:
            color = COLORS[bar.color % len(COLORS)]
            long, low, high = (max(v * scale, 0.0) for v in (bar.value, bar.low, bar.high))
            middle = y + line / 2
            parts.append(f'<text x="{left - 8}" y="{middle + 4}" text-anchor="end">{escape(bar.label)}</text>')
            parts.append(f'<rect x="{left}" y="{y + 4}" width="{long:.1f}" height="{line - 8}" fill="{color}"/>')
            parts.append(f'<path d="M{left + low:.1f} {middle}H{left + high:.1f}" stroke="#1d2530" fill="none"/>')
            parts.append(f'<text x="{left + max(long, high) + 8:.1f}" y="{middle + 4}">{escape(bar.text)}</text>')
            y += line
        y += 10
    total = left + width + right
    return f'<svg role="img" viewBox="0 0 {total} {y}" width="{total}" height="{y}">{"".join(parts)}</svg>'
