"""From a request in any legal form to packed batches for the columns and tensors for the dense rest.

The fast path packs whole runs of fields and lets any exception send it to the slow path, which looks at every value by
itself: it converts what is legal and lists everything that is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from colonnade.backends.arena import ALIGNMENT, Room
from colonnade.backends.examples import Decoder
from colonnade.backends.feed_agreements import Agreements
from colonnade.backends.feed_batch import BatchPlan, plan_of
from colonnade.backends.feed_elements import ElementInputs
from colonnade.backends.feed_pack import Packer
from colonnade.backends.feed_pads import PaddedInputs
from colonnade.backends.feed_ragged import RaggedInputs
from colonnade.backends.feed_rows import RowReader
from colonnade.backends.feed_values import Unfit, Unusual, as_declared, numpy_dtype, sound
from colonnade.backends.sizes import ShapeBinder
from colonnade.core import arrow_columns, dims
from colonnade.core.arrow_columns import exported
from colonnade.core.batch import Layout, Packed
from colonnade.core.strings import Strings
from colonnade.errors import ColonnadeError, FeedError, listed
from colonnade.ir.program import Input, Program

Array = npt.NDArray[Any]
Feed: TypeAlias = Mapping[str, Any] | pa.RecordBatch | pa.Table
UNUSUAL = (KeyError, AttributeError, TypeError, ValueError, RuntimeError, pa.ArrowException, ColonnadeError)
"""What the fast path may raise on a feed it does not take: its own `Unusual`, and what numpy, torch and Arrow raise."""
DTYPES = frozenset(
    "string bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class PackedFeed:
    """A request as one matrix a dtype: row r holds the values of all inputs of that dtype, in signature order.

    Shapes: by_dtype[t] is [B, total width of the inputs of dtype t]; `string` holds bytes or str.
    Facts: a dict with only dtype names as keys means the same, where no input has such a name.
    """

    by_dtype: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """A request that fits the signature.

    packed: one a layout.   tensors: the inputs outside the layouts, and those the dense rest reads; strings as object
    arrays of bytes.   sizes: the value of every dim symbol.   is_torch: whether the feed held a torch tensor.
    """

    packed: tuple[Packed, ...]
    tensors: Mapping[str, torch.Tensor | Array]
    sizes: Mapping[str, int]
    is_torch: bool


class FeedReader:
    """Reads the requests of one program. Safe for concurrent callers: it holds plans, no buffers.

    threads: what may be used to decode Examples.
    """

    def __init__(
        self,
        program: Program,
        layouts: Sequence[Layout],
        dense_inputs: frozenset[str] = frozenset(),
        threads: int = 1,
    ) -> None:
        self._pads = PaddedInputs(program)
        self.inputs = {i.name: i for i in program.inputs if i.of is None and i.name not in self._pads.made}
        self._defaults = {i.name: i.default.array for i in self.inputs.values() if i.default is not None}
        self._binders = {item.name: ShapeBinder(item.shape) for item in program.inputs}
        self._elements = ElementInputs(program)
        by_name = {item.name: item for item in program.inputs}
        self._packers = tuple(Packer(layout, by_name) for layout in layouts)
        packed = {name for layout in layouts for name in layout.fields}
        packed |= {name for packer in self._packers for name in packer.ragged.offsets}
        packed |= self._elements.sources | self._pads.sources | self._pads.made
        read = (i for i in program.inputs if i.of is None)
        self._others = tuple(i for i in read if i.name in dense_inputs or i.name not in packed)
        self._ragged = RaggedInputs(program.inputs)
        self._matrices = _Matrices(tuple(self.inputs.values()), self._ragged)
        wanted = [i.name for i in self._others]
        self._decoder = Decoder(program, layouts, wanted, threads) if program.decodes else None
        arrow_columns.prepare()
        self._batch_plan: BatchPlan | None = None
        """Of the schema that was read last."""
        self._rows = RowReader(program) if program.row_keys else None
        self._agreements = Agreements(program, layouts)

    def read(self, feed: Feed | PackedFeed, room: Room | None = None) -> Request:
        """The request, checked against the signature.

        feed: input name -> numpy array, torch tensor, Arrow array or (nested) list; an Arrow RecordBatch or Table (a
        column of lists under a ragged field's name gives its values and its offsets); or a `PackedFeed`.
        room: memory to pack it into, where that needs no copy more.
        Facts: an input that has a default may be left out, but not of matrices. Where the program decodes Examples,
        their key holds one serialized Example a row.
        Errors: one FeedError that lists every bad key, or every bad Example, or all places in which inputs that lack
        values together do not.
        """
        request = self._read(feed, room)
        if self._agreements:
            self._agreements.check(request.packed)
        return request

    def _read(self, feed: Feed | PackedFeed, room: Room | None) -> Request:
        known: dict[str, int] = {}
        if self._defaults:
            feed = self._completed(feed)
        if self._rows is not None:
            feed, known = self._rows.fields(self._mapping(feed))
        if self._decoder is not None:
            return self._read_examples(self._decoder, feed, room, known)
        if isinstance(feed, PackedFeed):
            return self._read_matrices(feed.by_dtype, room)
        if isinstance(feed, pa.RecordBatch | pa.Table):
            return self._read_batch(feed, room)
        if not isinstance(feed, Mapping):
            raise FeedError(
                "a request is a mapping, an Arrow RecordBatch or a PackedFeed",
                got=type(feed).__name__,
                want="dict of input name -> values",
            )
        if len(feed) == len(self.inputs):
            try:
                return self._read_arrays(feed, room, known)
            except UNUSUAL:
                pass  # something is wrong or needs converting: the slow path says what
        if feed and feed.keys() <= DTYPES and feed.keys().isdisjoint(self.inputs):
            return self._read_matrices(feed, room)
        return self._read_values(feed, room, known)

    def _added(self, feed: Mapping[str, Any], sizes: dict[str, int]) -> Mapping[str, Any]:
        """The request with the inputs that are made of others."""
        return self._elements.added(self._pads.added(feed, sizes), sizes)

    def _completed(self, feed: Feed | PackedFeed) -> Feed | PackedFeed:
        """The request with the defaults of what it leaves out."""
        if isinstance(feed, pa.RecordBatch | pa.Table):
            given = frozenset(feed.schema.names)
        elif isinstance(feed, Mapping) and not (feed and feed.keys() <= DTYPES):
            given = frozenset(feed)
        else:
            return feed
        missing = {name: value for name, value in self._defaults.items() if name not in given}
        return {**self._mapping(feed), **missing} if missing else feed

    def _mapping(self, feed: Feed | PackedFeed) -> Mapping[str, Any]:
        """A request in which rows are said by keys, as a mapping."""
        if isinstance(feed, pa.RecordBatch | pa.Table):
            return self._ragged.unlisted(dict(zip(feed.schema.names, feed.columns, strict=True)))
        if isinstance(feed, Mapping):
            return feed
        raise FeedError(
            "a request that says rows by keys is a mapping or an Arrow RecordBatch",
            got=type(feed).__name__,
            want=f"dict of {', '.join(sorted(self.inputs))}",
        )

    def _read_arrays(
        self, feed: Mapping[str, Any], room: Room | None, known: Mapping[str, int] | None = None
    ) -> Request:
        sizes: dict[str, int] = dict(known or {})
        feed = self._added(feed, sizes)
        packed = []
        is_torch = False
        for packer in self._packers:
            batch, has_tensors = packer.arrays(feed, sizes, room)
            packed.append(batch)
            is_torch = is_torch or has_tensors
        tensors = {}
        for item in self._others:
            value = feed[item.name]
            is_torch = is_torch or isinstance(value, torch.Tensor)
            tensors[item.name] = self._tensor(item, value, sizes)
        return Request(tuple(packed), tensors, sizes, is_torch)

    def _tensor(self, item: Input, value: Any, sizes: dict[str, int]) -> torch.Tensor | Array:
        array: Array = value.detach().numpy() if type(value) is torch.Tensor else value
        binder = self._binders[item.name]
        if type(array) is not np.ndarray or not binder.bind(array.shape, sizes):
            raise Unusual(item.name)
        if binder.derived and not binder.fits_derived(array.shape, sizes):
            raise Unusual(item.name)
        if item.dtype == "string" and array.dtype == object:
            return Strings.from_objects(array.reshape(-1)).to_objects().reshape(array.shape)
        if array.dtype != numpy_dtype(item.dtype):
            raise Unusual(item.name)
        if not array.flags.writeable or any(stride < 0 for stride in array.strides):
            array = array.copy()  # torch warns about read-only arrays and refuses negative strides
        tensor = torch.from_numpy(array)
        if tensor.data_ptr() % ALIGNMENT or not tensor.is_contiguous():
            # A matrix product's last bits depend on where its operands lie: they are to depend on the values alone.
            return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)
        return tensor

    def _read_batch(self, batch: pa.RecordBatch | pa.Table, room: Room | None) -> Request:
        parts = batch.to_batches() if isinstance(batch, pa.Table) else [batch]
        if len(parts) == 1:
            try:
                return self._read_exported(parts[0], room)
            except UNUSUAL:
                pass  # another schema, or something is wrong: what follows says what
        names = batch.schema.names
        if len(set(names)) != len(names):
            twice = [f"{name}: {count} columns" for name, count in Counter(names).items() if count > 1]
            raise FeedError("columns of one name", got=listed(twice), want="a column for each input")
        feed = self._ragged.unlisted(dict(zip(names, batch.columns, strict=True)))
        if feed.keys() != self.inputs.keys():
            return self._read_values(feed, room)
        try:
            if isinstance(batch, pa.Table):
                feed = {name: _one_chunk(column) for name, column in feed.items()}
            for column in feed.values():
                sound(column)
            sizes: dict[str, int] = {}
            whole = self._added(feed, sizes)
            packed = tuple(packer.columns(whole, batch.num_rows, sizes, room) for packer in self._packers)
            tensors = {i.name: self._tensor(i, self._value(i, whole[i.name]), sizes) for i in self._others}
            return Request(packed, tensors, sizes, is_torch=False)
        except UNUSUAL:
            return self._read_values(feed, room)

    def _read_exported(self, batch: pa.RecordBatch, room: Room | None) -> Request:
        plan = self._batch_plan
        if plan is None or not plan.schema.equals(batch.schema):
            plan = self._batch_plan = plan_of(batch.schema, self._packers, frozenset(self.inputs))
        if plan.columns is None:
            raise Unusual("a schema that is read another way")
        sizes: dict[str, int] = {}
        with exported(batch) as columns:
            packed = tuple(
                packer.exported(columns, found, batch.num_rows, sizes, room)
                for packer, found in zip(self._packers, plan.columns, strict=True)
            )
        tensors = {
            i.name: self._tensor(i, self._value(i, batch.column(plan.places[i.name])), sizes) for i in self._others
        }
        return Request(packed, tensors, sizes, is_torch=False)

    def _read_examples(
        self, decoder: Decoder, feed: Feed | PackedFeed, room: Room | None, said: Mapping[str, int]
    ) -> Request:
        if isinstance(feed, pa.RecordBatch | pa.Table):
            feed = dict(zip(feed.schema.names, feed.columns, strict=True))
        if not isinstance(feed, Mapping):
            raise FeedError(
                "a request with Examples is a mapping or an Arrow RecordBatch",
                got=type(feed).__name__,
                want=f"dict of {', '.join(sorted(decoder.keys))}",
            )
        if decoder.is_direct:
            made = decoder.read(feed, room)
            found: dict[str, torch.Tensor | Array] = dict(made.tensors)
            for item in self._others:
                if item.name not in found:
                    found[item.name] = self._tensor(item, made.value(item.name), made.sizes)
            return Request(made.packed, found, made.sizes, is_torch=False)
        fields, rest, known = decoder.fields(feed)
        known |= said
        if rest:
            return self._read_values({**rest, **fields}, room, known)
        try:
            sizes = dict(known)
            whole = self._added(fields, sizes)
            packed = tuple(p.decoded(whole, known.get(p.symbol, 0), sizes, room) for p in self._packers)
            tensors = {i.name: self._tensor(i, self._decoded(i, whole[i.name]), sizes) for i in self._others}
            return Request(packed, tensors, sizes, is_torch=False)
        except UNUSUAL:
            return self._read_values(fields, room, known)

    def _decoded(self, item: Input, value: Any) -> Array:
        return value if type(value) is np.ndarray else self._value(item, value)

    def _read_matrices(self, by_dtype: Mapping[str, Any], room: Room | None) -> Request:
        arrays = self._matrices.checked(by_dtype)
        is_torch = any(isinstance(value, torch.Tensor) for value in by_dtype.values())
        try:
            if self._elements or self._pads.made:
                raise Unusual("elements")
            sizes: dict[str, int] = {}
            packed = tuple(packer.matrices(arrays, self._matrices.places, sizes, room) for packer in self._packers)
            tensors = {i.name: self._tensor(i, self._matrices.values(i, arrays), sizes) for i in self._others}
            return Request(packed, tensors, sizes, is_torch)
        except UNUSUAL:
            request = self._read_values({i.name: self._matrices.values(i, arrays) for i in self.inputs.values()}, room)
            return Request(request.packed, request.tensors, request.sizes, is_torch)

    def _wanted(self, problems: Sequence[str]) -> list[str]:
        """The signature of the inputs that the problems name."""
        named = {problem.partition(": ")[0] for problem in problems}
        wanted = [f"{i.name}: {i.dtype}{_shape(i)}" for i in self.inputs.values() if i.name in named]
        return wanted or [f"only {', '.join(self.inputs)}"]

    def _read_values(
        self, feed: Mapping[str, Any], room: Room | None, known: Mapping[str, int] | None = None
    ) -> Request:
        """Converts what is legal, and lists everything that is not.   known: dims that the request says elsewhere."""
        arrays: dict[str, Array] = {}
        problems = [f"{name}: missing" for name in self.inputs if name not in feed]
        problems += [f"{name}: unexpected" for name in feed if name not in self.inputs]
        for name, item in self.inputs.items():
            if name in feed:
                try:
                    arrays[name] = self._value(item, feed[name])
                except Unfit as error:
                    problems.append(f"{name}: {error}")
        problems += [*self._misshapen(arrays, known or {}), *self._ragged.problems(arrays)]
        if problems:
            raise FeedError(
                f"the request does not fit the signature in {len(problems)} places",
                got=listed(problems),
                want=listed(self._wanted(problems)),
                help="give every input of the signature, with its dtype and shape, and one number of rows",
            )
        request = self._read_arrays(arrays, room, known)
        is_torch = any(isinstance(value, torch.Tensor) for value in feed.values())
        return Request(request.packed, request.tensors, request.sizes, is_torch)

    def _value(self, item: Input, value: object) -> Array:
        array = as_declared(value, item.dtype, item.shape)
        missing = item.shape[array.ndim :]
        if isinstance(value, pa.Array | pa.ChunkedArray) and missing and all(d == 1 for d in missing):
            return array.reshape(*array.shape, *[1] * len(missing))  # Arrow has no matrices of one column
        return array

    def _misshapen(self, arrays: Mapping[str, Array], said: Mapping[str, int]) -> list[str]:
        """said: dims that the request says elsewhere."""
        fits: dict[str, Array] = {}
        problems = []
        for name, array in arrays.items():
            binder = self._binders[name]
            if array.ndim != binder.rank or any(array.shape[i] != want for i, want in binder.fixed):
                problems.append(f"{name}: has the shape {list(array.shape)}, want {_shape(self.inputs[name])}")
            else:
                fits[name] = array
        usual = {**self._usual_sizes(fits), **said}
        for name, array in fits.items():
            binder = self._binders[name]
            for i, symbol in binder.symbols:
                if array.shape[i] != usual[symbol]:
                    what = "rows" if i == 0 else f"values in dim {i}"
                    problems.append(f"{name}: has {array.shape[i]} {what}, want {symbol} = {usual[symbol]} as others")
            for i, dim, function in binder.derived:
                known = {str(s) for s in dims.symbols_of(dim)} <= usual.keys()
                if known and array.shape[i] != function(usual):
                    problems.append(f"{name}: has {array.shape[i]} values in dim {i}, want {dim} = {function(usual)}")
        return problems

    def _usual_sizes(self, arrays: Mapping[str, Array]) -> dict[str, int]:
        """The most common value of every symbol, so that the few inputs that differ are the ones named."""
        votes: dict[str, Counter[int]] = {}
        for name, array in arrays.items():
            for i, symbol in self._binders[name].symbols:
                votes.setdefault(symbol, Counter())[array.shape[i]] += 1
        self._ragged.vote(votes, arrays)
        return {symbol: counter.most_common(1)[0][0] for symbol, counter in votes.items()}


class _Matrices:
    """Where the inputs lie in the matrices of a `PackedFeed`: (first column, width)."""

    def __init__(self, inputs: Sequence[Input], ragged: RaggedInputs) -> None:
        self.places: dict[str, tuple[int, int]] = {}
        self.widths: dict[str, int] = {}
        self.unfit: list[str] = []
        for item in inputs:
            if item.name in ragged.names:
                self.unfit.append(f"{item.name}: ragged values and their offsets have no fixed place in a row")
                continue
            rest = item.shape[1:]
            if not item.shape or isinstance(item.shape[0], int) or not all(isinstance(d, int) for d in rest):
                self.unfit.append(f"{item.name}: the shape {_shape(item)} has no fixed place in a row")
                continue
            start, width = self.widths.get(item.dtype, 0), dims.prod(rest)
            assert isinstance(width, int)
            self.places[item.name] = (start, width)
            self.widths[item.dtype] = start + width

    def checked(self, by_dtype: Mapping[str, Any]) -> dict[str, Array]:
        """The matrices. Errors: FeedError that lists every dtype that is missing, unexpected or misshapen."""
        if not isinstance(by_dtype, Mapping):
            raise FeedError(
                "a packed request is a mapping",
                got=type(by_dtype).__name__,
                want="dict of dtype -> matrix",
            )
        arrays: dict[str, Array] = {}
        problems = [*self.unfit, *(f"{dtype}: unexpected" for dtype in by_dtype if dtype not in self.widths)]
        for dtype, width in self.widths.items():
            if dtype not in by_dtype:
                problems.append(f"{dtype}: missing")
                continue
            try:
                array = as_declared(by_dtype[dtype], dtype, ("B", width))
            except Unfit as error:
                problems.append(f"{dtype}: {error}")
                continue
            if array.ndim != 2 or array.shape[1] != width:
                problems.append(f"{dtype}: has the shape {list(array.shape)}, want [B, {width}]")
            arrays[dtype] = array
        if problems:
            raise FeedError(
                "the packed request does not fit the signature",
                got=listed(problems),
                want=listed([f"{dtype}[B, {width}]" for dtype, width in self.widths.items()]),
                help="one matrix a dtype: the values of all inputs of that dtype, in signature order",
            )
        return arrays

    def values(self, item: Input, arrays: Mapping[str, Array]) -> Array:
        """One input's values."""
        start, width = self.places[item.name]
        matrix = arrays[item.dtype]
        return matrix[:, start : start + width].reshape(len(matrix), *(int(d) for d in item.shape[1:]))


def _one_chunk(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks != 1:
        raise Unusual("chunks")
    return column.chunk(0)


def _shape(item: Input) -> str:
    return f"[{', '.join(map(str, item.shape))}]"
