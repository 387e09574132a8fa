"""The parser of one line of the text form: recursive descent over its tokens; nothing is evaluated as code."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from colonnade import ops
from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.dims import Dim
from colonnade.core.examples import KINDS, Feature
from colonnade.core.expr import Apply, Expr, Field, fields_of
from colonnade.errors import ColonnadeError
from colonnade.ir import text_lexer, text_values
from colonnade.ir.column import POOLINGS, Column, Slot
from colonnade.ir.label import Label
from colonnade.ir.made_table import TABLE_OPS
from colonnade.ir.program import Agreement, Buffer, Decode, Input, Instruction, Output, Pad, Ref, RowKeys
from colonnade.ir.table import Table
from colonnade.ir.text_lexer import Failure, Token
from colonnade.ops import graph as graph_ops
from colonnade.ops.op import Op

T = TypeVar("T")
Param = tuple[str, str, tuple[int, ...]]

LITERALS: dict[str, Any] = {"true": True, "false": False, "none": None}


class Line:
    """The tokens of one line, read from the left."""

    def __init__(self, line: str, consts: Mapping[str, Const]) -> None:
        self.tokens, comment = text_lexer.tokens(line)
        self.source = _source(comment, len(line))
        self.consts = consts
        self.next = 0
        self.end = Token("end", "", len(line.rstrip()))

    # Tokens

    def peek(self, ahead: int = 0) -> Token:
        """The token that comes, unread."""
        at = self.next + ahead
        return self.tokens[at] if at < len(self.tokens) else self.end

    def take(self) -> Token:
        """The token that comes."""
        token = self.peek()
        self.next += 1
        return token

    def ahead(self, *texts: str) -> bool:
        """Whether these marks or bare words come."""
        return all(self._is(self.peek(i), text) for i, text in enumerate(texts))

    def skip(self, text: str) -> bool:
        """Read a mark or bare word if it comes."""
        if not self.ahead(text):
            return False
        self.next += 1
        return True

    def want(self, text: str) -> None:
        """Read a mark or bare word that must come."""
        if not self.skip(text):
            raise Failure(self.peek().at, f"`{text}`")

    @staticmethod
    def _is(token: Token, text: str) -> bool:
        return token.text == text and token.kind in ("mark", "arrow", "word")

    def done(self) -> None:
        """Nothing may come but a comment."""
        if self.peek().kind != "end":
            raise Failure(self.peek().at, "the end of the line")

    # Atoms

    def name(self, what: str) -> str:
        """A name, bare or quoted."""
        token = self.take()
        if token.kind == "word":
            return token.text
        if token.kind == "string":
            return text_lexer.unquoted(token)
        raise Failure(token.at, what)

    def integer(self, what: str) -> int:
        """An integer."""
        token = self.take()
        found = text_values.number(token.text) if token.kind == "word" else None
        if not isinstance(found, int):
            raise Failure(token.at, what)
        return found

    def listed(self, close: str, item: Callable[[], T]) -> list[T]:
        """Items between commas (one may trail) up to the closing mark."""
        found: list[T] = []
        while not self.skip(close):
            found.append(item())
            if not self.skip(","):
                self.want_close(close)
                break
        return found

    def want_close(self, close: str) -> None:
        """Read the closing mark that must come."""
        if not self.skip(close):
            raise Failure(self.peek().at, f"`,` or `{close}`")

    def shape(self) -> tuple[Dim, ...]:
        """`[B, 16]`: the words and marks between commas are handed to the parser of dims."""
        self.want("[")
        found: list[Dim] = []
        while not self.skip("]"):
            found.append(self._dim_item())
            if not self.skip(","):
                self.want_close("]")
                break
        return tuple(found)

    def _dim_item(self) -> Dim:
        token = self.take()
        if token.kind == "dim":
            return _dim(token)
        found = text_values.number(token.text) if token.kind == "word" else None
        if isinstance(found, int):
            return found
        if token.kind == "word" and token.text.isidentifier():
            return dims.symbol(token.text)
        raise Failure(token.at, "a dim: an integer, a symbol or an expression in braces")

    def fixed_shape(self, what: str) -> tuple[int, ...]:
        """A shape of integers."""
        at = self.peek().at
        found = self.shape()
        if not all(isinstance(d, int) for d in found):
            raise Failure(at, what)
        return tuple(int(d) for d in found)

    # Values

    def value(self) -> Any:
        """A value: see `text_values`."""
        token = self.peek()
        match token.kind:
            case "string":
                return text_lexer.unquoted(self.take())
            case "bytes":
                return text_lexer.unquoted_bytes(self.take())
            case "dim":
                return _dim(self.take())
            case "digest":
                return self._by_digest(self.take())
            case "numbers":
                return self._numbers(self.take())
            case "word":
                return self._word()
            case "mark" if token.text == "%":
                return self.ref()
            case "mark" if token.text == "(":
                self.take()
                return tuple(self.listed(")", self.value))
        raise Failure(token.at, "a value")

    def ref(self) -> Ref:
        """`%name`."""
        self.want("%")
        return Ref(self.name("a name"))

    def _word(self) -> Any:
        if is_mark(self.peek(1), "["):
            return self._strings()
        token = self.take()
        if token.text in LITERALS:
            return LITERALS[token.text]
        found = text_values.number(token.text)
        if found is not None:
            return math.nan if found != found else found
        if text_values.bare_text(token.text):
            return token.text
        raise Failure(token.at, "a value", 'a text that starts with a digit or a sign needs quotes: "..."')

    def _numbers(self, token: Token) -> Const:
        """A constant of numbers, which the lexer reads as one token: a program may hold a hundred thousand elements."""
        head, _, body = token.text.partition("](")
        dtype, _, size = head.partition("[")
        values: list[Any] = []
        at = token.at + len(head) + 2
        for part in body[:-1].split(",") if body[:-1].strip() else []:
            values.append(_element(part.strip(), dtype, at + len(part) - len(part.lstrip())))
            at += len(part) + 1
        return _constant(token, dtype, [int(d) for d in size.replace(" ", "").split(",") if d], values)

    def _strings(self) -> Const:
        token = self.take()
        if token.text != text_values.STRING:
            known = text_values.CONST_DTYPES
            raise Failure(
                token.at, "a constant: " + ", ".join(f"{k}[...](...)" for k in known), near(token.text, known)
            )
        size = self.fixed_shape("a constant's shape, of integers")
        self.want("(")
        return _constant(token, token.text, list(size), self.listed(")", self._bytes))

    def _bytes(self) -> bytes:
        token = self.take()
        if token.kind != "bytes":
            raise Failure(token.at, 'bytes: b"..."')
        return text_lexer.unquoted_bytes(token)

    def _by_digest(self, token: Token) -> Const:
        found = self.consts.get(token.text[1:])
        if found is None:
            help = "the file of constants beside the text lacks it"
            raise Failure(token.at, "the digest of a constant that came with the text", help)
        return found

    # Expressions of columns

    def expr(self, known: Mapping[str, type[Op]] | None = None, what: str = "the name of a column op") -> Expr:
        """`%field` or `op[attribute=value](expr, ...)`.   known: the ops, if not those of columns."""
        if self.ahead("%"):
            return Field(self.ref().name)
        token = self.take()
        if token.kind != "word":
            raise Failure(token.at, "an expression: `%field` or `op[...](...)`")
        known = ops.load() if known is None else known
        cls = known.get(token.text)
        if cls is None:
            raise Failure(token.at, what, near(token.text, known))
        attributes = self._attributes(cls) if self.skip("[") else {}
        op = _instance(cls, attributes, token)
        self.want("(")
        found: Expr = Apply(op, *self.listed(")", lambda: self.expr(known, what)))
        return found

    def _attributes(self, cls: type[Any]) -> dict[str, Any]:
        known = [f.name for f in dataclasses.fields(cls)]
        found: dict[str, Any] = {}

        def item() -> None:
            at = self.peek().at
            key = self.name("the name of an attribute")
            if key not in known or key in found:
                rest = [k for k in known if k not in found]
                raise Failure(at, f"an attribute of {cls.name}, once each: {', '.join(rest)}", near(key, rest))
            self.want("=")
            found[key] = self.value()

        self.listed("]", item)
        return found

    # Lines

    def input(self) -> Input:
        """`input NAME: DTYPE[SHAPE] [of NAME[START:STOP]] [choice ..] [by OP(..)] [offsets NAME] [default C]`."""
        name, dtype = self._typed("an input's name")
        shape = self.shape()
        of = self.name("the name of the input whose elements they are") if self.skip("of") else None
        places = self._places() if of is not None and self.skip("[") else None
        numbered = self.skip("place")
        if numbered:
            self.want("of")
            self.want("choice")
        place, among, splits = self._choice() if numbered or self.skip("choice") else (0, (), ())
        by = self.expr(graph_ops.load()) if self.skip("by") else None
        if by is not None:
            of = fields_of(by)[0]
        offsets = self.name("the name of the input that holds the offsets") if self.skip("offsets") else None
        default = self._default() if self.skip("default") else None
        return Input(name, dtype, shape, self.source, offsets, of, among, place, default, places, by, splits, numbered)

    def _default(self) -> Const:
        token = self.peek()
        value = self.value()
        if not isinstance(value, Const):
            raise Failure(token.at, "a constant")
        return value

    def _places(self) -> tuple[int, int]:
        start = self.integer("the first place")
        self.want(":")
        stop = self.integer("the place behind the last")
        self.want("]")
        return start, stop

    def _choice(self) -> tuple[int, tuple[str, ...], tuple[bytes, ...]]:
        place = self.integer("which of the fields it is")
        self.want("among")
        self.want("(")
        found = self.listed(")", self._among)
        splits = tuple(by for _, by in found)
        return place, tuple(name for name, _ in found), splits if any(splits) else ()

    def _among(self) -> tuple[str, bytes]:
        """`NAME [split SEPARATOR]`."""
        name = self.name("the name of a field")
        if not self.skip("split"):
            return name, b""
        token = self.peek()
        by = self.value()
        if not isinstance(by, bytes) or not by:
            raise Failure(token.at, "a separator")
        return name, by

    def decode(self) -> Decode:
        """`decode NAME: string[B]`, which lines of features follow."""
        name, _ = self._typed("the key of serialized Examples")
        at = self.peek().at
        shape = self.shape()
        if len(shape) != 1:
            raise Failure(at, "[batch symbol]")
        return Decode(name, shape[0], (), tensor=self.source)

    def feature(self) -> tuple[str, Feature, str | None]:
        """`feature KEY of NAME: DTYPE KIND[SHAPE] [default CONST] [-> INPUT]`."""
        key = self.name("the key of a feature")
        self.want("of")
        of, dtype = self._typed("the key of serialized Examples")
        token = self.peek()
        kind = self.name("a kind of feature")
        if kind not in KINDS:
            raise Failure(token.at, "a kind of feature: " + ", ".join(KINDS), near(kind, KINDS))
        shape = self.fixed_shape("a feature's shape, of integers")
        default = self.value() if self.skip("default") else None
        made = self.name("the input that it becomes") if self.skip("->") else None
        attributes = {"key": key, "dtype": dtype, "kind": kind, "shape": shape, "default": default}
        return of, _checked(Feature, attributes, token, "a feature"), made

    def rows(self) -> RowKeys:
        """`rows OFFSETS: DTYPE[B, T] of [trimmed] [strict] indices NAME[N] [shape NAME] [places NAME]`.

        In the place of the indices: `splits NAME[N] [over [M]]` or `nested NAME[N] in NAME[M]`.
        """
        offsets, dtype = self._typed("the input that holds the offsets")
        at = self.peek().at
        sizes = self.shape()
        if len(sizes) != 2:
            raise Failure(at, "[rows, width]")
        self.want("of")
        trimmed, strict = self.skip("trimmed"), self.skip("strict")
        by = next((word for word in ("indices", "nested") if self.skip(word)), "splits")
        if by == "splits":
            self.want("splits")
        key = self.name("a key of a request")
        count = self._number()
        outer = (self.name("the key of splits of rows"), self._number()) if self.skip("in") else None
        elements = self._number() if self.skip("over") else None
        shape = self.name("the key of the dense shape") if self.skip("shape") else None
        places = self.name("the input of places") if self.skip("places") else None
        rows, width = sizes
        return RowKeys(
            key, by, offsets, count, rows, width, shape, dtype, trimmed, strict, places, outer, elements, self.source
        )

    def _number(self) -> Dim:
        """`[N]`."""
        at = self.peek().at
        count = self.shape()
        if len(count) != 1:
            raise Failure(at, "[number]")
        return count[0]

    def pad(self) -> Pad:
        """`pad NAME: WHAT[B, T] [of FIELD] [fill CONST] by OFFSETS [at PLACES]`."""
        name, what = self._typed("an input's name")
        at = self.peek().at
        sizes = self.shape()
        if len(sizes) != 2:
            raise Failure(at, "[rows, width]")
        of = self.name("the field that is padded") if self.skip("of") else None
        fill = self.value() if self.skip("fill") else None
        self.want("by")
        offsets = self.name("the input that holds the offsets")
        places = self.name("the input of places") if self.skip("at") else None
        return Pad(name, what, *sizes, offsets, places, of, fill)

    def agree(self) -> Agreement:
        """`agree NAME without VALUE and NAME without VALUE`."""
        name, missing = self._lacking((int, bytes), "an integer or bytes")
        self.want("and")
        other, other_missing = self._lacking((float,), "a float")
        return Agreement(name, missing, other, other_missing)

    def _lacking(self, types: tuple[type, ...], what: str) -> tuple[str, Any]:
        name = self.name("an input's name")
        self.want("without")
        at = self.peek().at
        found = self.value()
        if type(found) not in types:
            raise Failure(at, what)
        return name, found

    def table(self) -> Table:
        """`table NAME: DTYPE[ROWS, DIM] [= EXPR]`: what its rows are made of."""
        name, dtype = self._typed("a table's name")
        at = self.peek().at
        size = self.fixed_shape("[rows, embedding_dim]")
        if len(size) != 2:
            raise Failure(at, "[rows, embedding_dim]")
        made = self.expr(TABLE_OPS, "the name of an op on tables") if self.skip("=") else None
        return Table(name, size[0], size[1], dtype, self.source, made)

    def param(self) -> Param:
        """`param NAME: DTYPE[SHAPE]`."""
        name, dtype = self._typed("a parameter's name")
        return name, dtype, self.fixed_shape("a parameter's shape, of integers")

    def buffer(self) -> Buffer:
        """`buffer NAME: DTYPE[B, WIDTH]`."""
        name, dtype = self._typed("a buffer's name")
        at = self.peek().at
        size = self.shape()
        if len(size) != 2 or not isinstance(size[1], int):
            raise Failure(at, "[batch symbol, width]")
        return Buffer(name, size[0], size[1], dtype)

    def _typed(self, what: str) -> tuple[str, str]:
        name = self.name(what)
        self.want(":")
        return name, self.name("a dtype")

    def column(self) -> Column:
        """`column NAME = IDS [where F and G] [weight W] -> table T | value pool P [default N] [proven] [-> slots]`."""
        name = self.name("a column's name")
        self.want("=")
        ids = self.expr()
        filters = [self.expr()] if self.skip("where") else []
        while filters and self.skip("and"):
            filters.append(self.expr())
        weights = self.expr() if self.skip("weight") else None
        self.want("->")
        table = self._target()
        self.want("pool")
        pooling = self._pooling()
        default = self.integer("the default row") if self.skip("default") else None
        proven = self.skip("proven")
        slots = self._slots() if self.skip("->") else []
        return Column(name, ids, table, pooling, tuple(filters), weights, default, proven, tuple(slots), self.source)

    def _target(self) -> str | None:
        if self.skip("value"):
            return None
        if not self.skip("table"):
            raise Failure(self.peek().at, "`table NAME` or `value`")
        return self.name("a table's name")

    def _pooling(self) -> str:
        at = self.peek().at
        found = self.name("a pooling")
        if found not in POOLINGS:
            raise Failure(at, "a pooling: " + ", ".join(POOLINGS), near(found, POOLINGS))
        return found

    def _slots(self) -> list[Slot]:
        found = [self._slot()]
        while self.skip(","):
            found.append(self._slot())
        return found

    def _slot(self) -> Slot:
        output = self.name("a buffer's name")
        self.want("[")
        start = self.integer("the slot's first column")
        self.want(":")
        at = self.peek().at
        stop = self.integer("the column after the slot's last")
        if stop < start:
            raise Failure(at, f"a column that is not before {start}")
        self.want("]")
        return Slot(output, start, stop - start)

    def instruction(self) -> Instruction:
        """`%NAME = OP(VALUE, ..., KEY=VALUE, ...)`."""
        output = self.ref().name
        self.want("=")
        op = self.name("the name of an aten overload or a dense op")
        self.want("(")
        args: list[Any] = []
        kwargs: list[tuple[str, Any]] = []

        def item() -> None:
            if is_mark(self.peek(1), "="):
                key = self.name("the name of an argument")
                self.want("=")
                kwargs.append((key, self.value()))
            elif kwargs:
                raise Failure(self.peek().at, "a named argument: positional ones come first")
            else:
                args.append(self.value())

        self.listed(")", item)
        return Instruction(output, op, tuple(args), tuple(kwargs), source=self.source)

    def output(self) -> Output:
        """`output NAME: DTYPE[SHAPE] = %VALUE`, `... = decimal(%VALUE)` or `... = label[keys=.., ..](%VALUE)`."""
        name, dtype = self._typed("an output's name")
        size = self.shape()
        self.want("=")
        if not self.ahead("decimal") and not self.ahead("label"):
            return Output(name, self.ref(), dtype, size)
        token = self.peek()
        label = None
        if self.skip("label"):
            self.want("[")
            label = _instance(Label, self._attributes(Label), token)
        else:
            self.want("decimal")
        self.want("(")
        value = self.ref()
        self.want(")")
        return Output(name, value, dtype, size, decimal=label is None, label=label)


def is_mark(token: Token, text: str) -> bool:
    """Whether a token is that mark."""
    return token.kind == "mark" and token.text == text


def near(word: str, known: Any) -> str:
    """The known names that are like a word, as a help line."""
    close = difflib.get_close_matches(word, list(known), n=4, cutoff=0.5)
    return "near names: " + ", ".join(close) if close else ""


def _instance(cls: type[Any], attributes: dict[str, Any], token: Token) -> Any:
    required = [
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    missing = [n for n in required if n not in attributes]
    if missing:
        raise Failure(token.at, f"{cls.name} with the attributes {', '.join(missing)}")
    return _checked(cls, attributes, token, cls.name)


def _checked(cls: type[Any], attributes: dict[str, Any], token: Token, what: str) -> Any:
    try:
        return cls(**attributes)
    except ColonnadeError as e:
        raise Failure(token.at, f"attributes that {what} takes", e.message) from e


def _element(word: str, dtype: str, at: int) -> Any:
    if dtype == "bool":
        found = LITERALS.get(word)
        fits = found is not None
    else:
        found = text_values.number(word)
        fits = found is not None and (dtype.startswith("float") or isinstance(found, int))
    if not fits:
        raise Failure(at, f"an element of dtype {dtype}")
    return found


def _constant(token: Token, dtype: str, size: list[int], values: list[Any]) -> Const:
    if min(size, default=0) < 0 or math.prod(size) != len(values):
        raise Failure(token.at, f"{math.prod(size)} elements for the shape {size}, not {len(values)}")
    try:
        return text_values.build(dtype, tuple(size), values)
    except OverflowError as e:
        raise Failure(token.at, f"elements that fit {dtype}") from e


def _dim(token: Token) -> Dim:
    try:
        return dims.parse(token.text[1:-1])
    except (ValueError, RecursionError) as e:
        raise Failure(token.at, "a dim: integers, symbols, + - * and max_, ceil_div, floor_div") from e


def _source(comment: str, at: int) -> str:
    if not comment.startswith("from "):
        return ""
    text = comment[5:].strip()
    if not text.startswith('"'):
        return text
    return text_lexer.unquoted(Token("string", text, at - len(text)))
