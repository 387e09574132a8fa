"""Tokens of the text form, its quoting, and the errors that point into a line."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from colonnade.errors import TextError, listed

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>\#.*)
  | (?P<bytes>b"(?:[^"\\]|\\.)*")
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<arrow>->)
  | (?P<dim>\{[^{}]*\})
  | (?P<digest>@[0-9a-f]+)
  | (?P<numbers>(?:bool|u?int(?:8|16|32|64)|float(?:16|32|64))\[[0-9,\ ]*\]\([A-Za-z0-9_.,\ -]*\))
  | (?P<word>(?:[A-Za-z0-9_./]|-(?!>))+)
  | (?P<mark>[%=()\[\]:,])
    """,
    re.VERBOSE | re.DOTALL,
)
_BARE = re.compile(r"(?:[A-Za-z0-9_./]|-(?!>))+", re.ASCII)
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|([\"\\]))")
_SHOWN = 96


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a line: its kind, its text and the column it starts at (from 0)."""

    kind: str
    text: str
    at: int


class Failure(Exception):
    """What was expected at a column of the line that is being read."""

    def __init__(self, at: int, want: str, help: str = "") -> None:
        self.at = at
        self.want = want
        self.help = help
        super().__init__(want)


def tokens(line: str) -> tuple[list[Token], str]:
    """The tokens of a line, and its trailing comment without the `#`."""
    found: list[Token] = []
    at = 0
    while at < len(line):
        m = _TOKEN.match(line, at)
        if m is None:
            raise Failure(at, "the end of a quoted text" if line[at] in '"{' else "a name, a value or a mark")
        kind = m.lastgroup or ""
        if kind == "comment":
            return found, m.group()[1:].strip()
        if kind != "space":
            found.append(Token(kind, m.group(), at))
        at = m.end()
    return found, ""


def name(text: str) -> str:
    """A name as it is printed: bare where it can be."""
    return text if _BARE.fullmatch(text) else quoted(text)


def quoted(text: str) -> str:
    """A text in double quotes on one line; what does not print is escaped."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in plain)


def unquoted(token: Token) -> str:
    """The text that `quoted` printed."""
    try:
        return str(json.loads(token.text))
    except ValueError as e:
        raise Failure(token.at, "a text in double quotes, with JSON's escapes") from e


def quoted_bytes(data: bytes) -> str:
    """Bytes as b"..."; all but printable ASCII as \\xNN."""
    return 'b"' + "".join(_byte(b) for b in data) + '"'


def _byte(b: int) -> str:
    if b in b'"\\':
        return "\\" + chr(b)
    return chr(b) if 32 <= b < 127 else f"\\x{b:02x}"


def unquoted_bytes(token: Token) -> bytes:
    """The bytes that `quoted_bytes` printed."""
    body = token.text[2:-1]
    plain = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else m[2], body)
    if "\\" in _ESCAPE.sub("", body) or not body.isascii():
        raise Failure(token.at, 'bytes: ASCII with the escapes \\xNN, \\" and \\\\')
    return plain.encode("latin-1")


def error(failures: list[tuple[int, str, Failure]]) -> TextError:
    """One error for all lines (number from 1, text, failure) that do not parse."""
    number, line, first = failures[0]
    shown, caret = _window(line, first.at)
    if len(failures) == 1:
        return TextError(
            "the program text does not parse",
            where=f"line {number}, column {first.at + 1}",
            got=f"{shown}\n{caret}",
            want=first.want,
            help=first.help,
        )
    return TextError(
        f"{len(failures)} lines of the program text do not parse",
        where="lines " + ", ".join(str(n) for n, _, _ in failures[:20]) + (", ..." if len(failures) > 20 else ""),
        got="\n".join(_entry(*f) for f in failures[:8]) + ("\n..." if len(failures) > 8 else ""),
        want=listed([f"line {n}, column {f.at + 1}: {f.want}" for n, _, f in failures]),
        help=listed([f"line {n}: {f.help}" for n, _, f in failures if f.help]),
    )


def _entry(number: int, line: str, failure: Failure) -> str:
    shown, caret = _window(line, failure.at)
    pad = " " * len(f"{number}: ")
    return f"{number}: {shown}\n{pad}{caret}"


def _window(line: str, at: int) -> tuple[str, str]:
    """The part of a line around a column, and a caret under that column."""
    start = 0 if len(line) <= _SHOWN else max(0, min(at - _SHOWN // 2, len(line) - _SHOWN))
    head = "..." if start else ""
    tail = "..." if start + _SHOWN < len(line) else ""
    part = "".join(c if c.isprintable() else " " for c in line[start : start + _SHOWN])
    return head + part + tail, " " * (len(head) + at - start) + "^"
