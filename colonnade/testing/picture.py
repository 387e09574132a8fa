"""Bars as a PNG, by matplotlib, which is installed only where pictures are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from colonnade.errors import OptionError
from colonnade.testing.html import COLORS, Bar, Group

_LINE, _TITLE, _WIDTH = 0.26, 0.42, 9.0
"""Height of a bar and of a title, width of the picture. Units: inches."""


def library() -> ModuleType:
    """matplotlib. Errors: OptionError where it is not installed."""
    try:
        import matplotlib.backends.backend_agg
        import matplotlib.figure
    except ModuleNotFoundError as error:
        raise OptionError(
            "a PNG cannot be drawn here", got=f"no {error.name}", help="pip install 'colonnade[report]'"
        ) from error
    return matplotlib


def draw(path: Path, title: str, groups: Sequence[Group], note: str = "") -> None:
    """Write a PNG: a group below the other, each with its own scale from 0. Errors: OptionError without matplotlib."""
    matplotlib = library()
    shown = [(name, bars) for name, bars in groups if bars]
    heights = [_TITLE + _LINE * len(bars) for _, bars in shown] or [1.0]
    figure = matplotlib.figure.Figure(figsize=(_WIDTH, sum(heights) + 1.0), layout="constrained")
    matplotlib.backends.backend_agg.FigureCanvasAgg(figure)
    figure.suptitle(title)
    if note:
        figure.supxlabel(note, fontsize=7)
    axes = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    for axis, (name, bars) in zip(axes[:, 0], shown, strict=False):
        _group(axis, name, bars)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _group(axis: object, name: str, bars: Sequence[Bar]) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axis, Axes)
    places = range(len(bars))
    values = [b.value for b in bars]
    error = [[max(b.value - b.low, 0.0) for b in bars], [max(b.high - b.value, 0.0) for b in bars]]
    axis.barh(places, values, xerr=error, color=[COLORS[b.color % len(COLORS)] for b in bars], height=0.7)
    axis.set_yticks(places, [b.label for b in bars], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.25 * max([b.high for b in bars] + values) or 1.0)
    for place, bar in enumerate(bars):
        axis.annotate(
            bar.text, (max(bar.high, bar.value), place), (6, 0), textcoords="offset points", va="center", size=8
        )
    axis.set_title(name, fontsize=9, loc="left")
    axis.tick_params(axis="x", labelbottom=False, bottom=False)
    for side in ("top", "right", "bottom"):
        axis.spines[side].set_visible(False)
