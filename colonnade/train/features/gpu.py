"""The transform on a GPU: all features of a batch in a few launches, whatever their number.

Legend: B batch rows, F fields, N ids of all features.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.cpu.transform import BAGS, COUNT
from colonnade.backends.gpu import accelerator
from colonnade.backends.gpu.emit import Memory
from colonnade.backends.gpu.source import load
from colonnade.backends.gpu.transform import words as w
from colonnade.backends.gpu.transform.arrange import Arranged, Arranger
from colonnade.backends.gpu.transform.launches import OPTIONS, make_launches
from colonnade.backends.gpu.transform.plan import (
    DENSE,
    FLOAT32,
    FLOAT64,
    IDS,
    Output,
    Traits,
    is_node,
    make_plan,
)
from colonnade.config import settings
from colonnade.core.eager import uncompiled
from colonnade.core.expr import Apply, Expr
from colonnade.core.ragged import Ragged
from colonnade.core.strings import Strings
from colonnade.errors import ConsistencyError, OptionError
from colonnade.frontends.feature import Feature
from colonnade.frontends.feature_set import FeatureSet
from colonnade.ops.cast import BOUNDS
from colonnade.ops.weigh import Weigh
from colonnade.train.features.device_batch import DeviceStrings, Held, Packing, has_offsets, held_apart
from colonnade.train.features.device_join import Join
from colonnade.train.features.device_views import Views
from colonnade.train.features.placed import Ends, Placer
from colonnade.train.features.reference import ReferenceTransform
from colonnade.train.features.room import Room, Shared
from colonnade.train.features.transformed import LookedUp, Transformed
from colonnade.train.ids import PackedIds, check_count

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class DeviceBatch:
    """A batch on the device, with the header that the launches read.

    source: what it was made of, for errors.   header: on the device.   arranged: what it says.
    """

    source: Mapping[str, Any]
    held: Held
    arranged: Arranged
    header: torch.Tensor


class GpuTransform:
    """What `ReferenceTransform` gives, on a CUDA device; `interpret` runs the same kernels on the CPU.

    Facts: calls of one transform are made by one thread, on one stream, for they share memory. Nothing waits for the
    device but `GpuTransformed.wait` and `packed`.
    Errors: FeatureError that lists every feature that cannot run there; OptionError without a device.
    """

    def __init__(self, features: FeatureSet, *, interpret: bool = False) -> None:
        self.features = features
        self.device = torch.device("cpu") if interpret else accelerator.device()
        self._kept: list[torch.Tensor] = []
        self._memo: dict[Expr, Traits] = {}
        self._specs = features.read
        outputs = [self._output(f) for f in features.features]
        self.plan = make_plan(outputs, {s.name: s.dtype for s in self._specs}, self._traits)
        widths = {s.name: None if s.ragged else s.width for s in self._specs if has_offsets(s)}
        self.launches = make_launches(self.plan, Memory(self._place), widths)
        self._arranger = Arranger(self.plan, self.launches)
        module = load(self.launches.text, settings().cache_dir / "gpu", interpret=interpret)
        self._kernels = [getattr(module, launch.name) for launch in self.launches.launches]
        self._views = Views(self.plan)
        self._placer = Placer(self._specs, len(self._specs))
        self._room = Room(self.plan.nodes)
        self._ends_of = Ends(self.device)
        self._work_bytes = Shared()
        self._work = torch.zeros(2, dtype=torch.int64, device=self.device)
        self._last: tuple[Array, torch.Tensor] | None = None
        self._join: tuple[LookedUp, Join] | None = None

    def _place(self, array: Array) -> int:
        """A copy on the device; its address."""
        held = torch.from_numpy(np.array(array)).to(self.device)
        self._kept.append(held if held.numel() else torch.zeros(16, dtype=torch.uint8, device=self.device))
        return self._kept[-1].data_ptr()

    def _traits(self, expr: Expr) -> Traits:
        found = self._memo.get(expr)
        if found is None:
            known = self.features.known(expr)
            found = Traits(known.elements, known.rows.levels, known.rows.width, known.weighted)
            self._memo[expr] = found
        return found

    def _output(self, feature: Feature) -> Output:
        known = self.features.known(feature.expr)
        dtype = known.elements.dtype
        kind = DENSE if feature.is_dense else IDS if dtype in BOUNDS else FLOAT32 if dtype == "float32" else FLOAT64
        own = known.weighted and not feature.is_dense and not _has_weights_of_field(feature.expr)
        return Output(feature.name, feature.expr, kind, own)

    # --- the batch --------------------------------------------------------------------------------------------------
    @uncompiled
    def put(self, batch: Mapping[str, Any]) -> DeviceBatch:
        """A batch of arrays on the host, brought to the device in one copy.

        Errors: FeedError that lists every field that does not fit; offsets are looked at on the device.
        """
        placed = self._placer.place(batch)
        for spec, x in zip(self._specs, placed.fields, strict=True):
            if not has_offsets(spec) and isinstance(batch.get(spec.name), Ragged):
                self._check_width(batch, x, spec.width)
        table = placed.words[: len(self._specs)]
        counts, bags = (table[:, word // 8].tolist() for word in (COUNT, BAGS))
        arranged = self._arranger.arrange(counts, bags, placed.rows, self._room.counts)
        num_header = 8 * (len(self.launches.words) + len(arranged.programs))
        packing = Packing(self._specs, placed, num_header)
        block = torch.empty(packing.num_bytes, dtype=torch.uint8, device=self.device)
        widths = {s.width for s in self._specs if not has_offsets(s)}
        held = packing.held(block, {width: self._ends_of(placed.rows, width) for width in widths})
        host = self._staging(packing.num_bytes)
        host[:num_header].numpy()[:] = self._arranger.header(arranged, held.words).view(np.uint8)
        packing.write(host)
        block.copy_(host, non_blocking=True)
        return DeviceBatch(batch, held, arranged, block[:num_header].view(torch.int64))

    def _staging(self, num_bytes: int) -> torch.Tensor:
        """Memory on the host that is copied from; torch keeps it until that is done, and gives it out again."""
        return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=self.device.type == "cuda")

    def _check_width(self, batch: Mapping[str, Any], x: Ragged, width: int) -> None:
        if len(x.offsets) != 1 or not torch.equal(x.offsets[0], torch.arange(x.rows + 1) * width):
            ReferenceTransform(self.features)(batch)
            raise _unexplained()

    def _apart(self, batch: Mapping[str, Any]) -> DeviceBatch:
        """A batch of tensors on the device; its header is copied, unless it is the last one."""
        held = held_apart(batch, self._specs, self.device, self._ends_of)
        return self._with_header(batch, held)

    def _with_header(self, batch: Mapping[str, Any], held: Held) -> DeviceBatch:
        counts, bags = held.words[:, w.COUNT].tolist(), held.words[:, w.BAGS].tolist()
        arranged = self._arranger.arrange(counts, bags, held.rows, self._room.counts)
        words = self._arranger.header(arranged, held.words)
        if self._last is None or not np.array_equal(self._last[0], words):
            host = self._staging(8 * len(words)).view(torch.int64)
            host.numpy()[:] = words
            self._last = words, host.to(self.device, non_blocking=True)
        return DeviceBatch(batch, held, arranged, self._last[1])

    # --- the call ---------------------------------------------------------------------------------------------------
    @uncompiled
    def __call__(self, batch: Mapping[str, Any] | DeviceBatch) -> GpuTransformed:
        """All features of a batch: of `put`, of tensors on the device, or of arrays on the host.

        Facts: nothing waits for the device. Tensors on the device are `DeviceStrings`, plain tensors and `Ragged`.
        Errors: FeedError that lists every field that does not fit.
        """
        if not isinstance(batch, DeviceBatch):
            batch = self._apart(batch) if _lies_on_device(batch, self.device) else self.put(batch)
        return GpuTransformed(self, batch, self._launch(batch))

    def _launch(self, batch: DeviceBatch) -> torch.Tensor:
        """Enqueue all launches; gives the memory that they write results to."""
        arranged = batch.arranged
        words = self._work_bytes.of(arranged.work_bytes) // 8 + 1
        if words != self._work.numel():
            self._work = torch.zeros(words, dtype=torch.int64, device=self.device)
        out = torch.empty(-(-arranged.out_bytes // 16) * 2, dtype=torch.int64, device=self.device)
        self.enqueue(batch, out)
        return out

    def enqueue(self, batch: DeviceBatch, out: torch.Tensor) -> None:
        """Enqueue all launches for a batch. out: int64, of `arranged.out_bytes`.

        Facts: nothing is allocated, so that a CUDA graph can capture it; what was captured is good until the next call.
        Errors: OptionError where no call has made room for such a batch.
        """
        room = 8 * self._work.numel(), 8 * out.numel()
        wanted = batch.arranged.work_bytes, batch.arranged.out_bytes
        if room[0] < wanted[0] or room[1] < wanted[1]:
            raise OptionError("too little room for a batch", got=f"{room} bytes", want=f"{wanted}", help="call it once")
        on_device = torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()
        with on_device, np.errstate(all="ignore"):  # numpy, which the interpreter computes with, warns
            for kernel, (first, grid) in zip(self._kernels, batch.arranged.grids, strict=True):
                if grid:
                    kernel[(grid,)](batch.header, out, self._work, first, **OPTIONS)

    # --- the result -------------------------------------------------------------------------------------------------
    def finish(self, batch: DeviceBatch, out: torch.Tensor) -> Transformed:
        """Wait for the device; the features of a batch, or what is wrong with it."""
        return self._views.of(*self._settled(batch, out))

    @uncompiled
    def packed(self, batch: Mapping[str, Any] | DeviceBatch, looked_up: LookedUp) -> tuple[PackedIds, Transformed]:
        """The ids of embedded features as they are looked up, and what else is wanted of the batch; waits.

        Errors: FeedError that lists every field that does not fit, or ids that are too many; ShapeError.
        """
        transformed = self(batch)
        found = self._settled(transformed.batch, transformed.out)
        if self._join is None or self._join[0] is not looked_up:
            self._join = looked_up, Join(self._views, looked_up)
        return self._join[1].of(*found), self._views.of(*found, looked_up.wanted)

    def _settled(self, batch: DeviceBatch, out: torch.Tensor) -> tuple[Held, Arranged, torch.Tensor, Array]:
        """Wait for the device, and launch again where there was too little room: what views are made of.

        Errors: what is wrong with the batch; FeedError on more elements than can be numbered.
        """
        while True:
            arranged = batch.arranged
            num = 2 * len(self.plan.nodes)
            head = out[: arranged.flags.begin // 8 + arranged.flags.count].cpu().numpy()
            if head[arranged.flags.begin // 8 :].any():
                self._refuse(batch)
            found = head[0:num:2]
            check_count(int(found.max(initial=0)))
            if (found <= np.array(arranged.counts[len(self._specs) :], np.int64)).all():
                self._room.note(found)
                return batch.held, arranged, out, head[:num].reshape(-1, 2)
            self._room.grow(found)
            batch = self._with_header(batch.source, batch.held)
            out = self._launch(batch)

    def _refuse(self, batch: DeviceBatch) -> None:
        """Raise what is wrong with a batch, as the reference finds it."""
        ReferenceTransform(self.features)({name: _on_host(x) for name, x in batch.source.items()})
        raise _unexplained()


@dataclass(frozen=True, eq=False)
class GpuTransformed:
    """The features of a batch that the device may still be computing."""

    owner: GpuTransform
    batch: DeviceBatch
    out: torch.Tensor

    def wait(self) -> Transformed:
        """The features, their tensors on the device.

        Errors: FeedError, ShapeError on offsets that do not fit, as the reference says them.
        """
        return self.owner.finish(self.batch, self.out)


def _has_weights_of_field(expr: Expr) -> bool:
    """Whether the weights of an expression are those of the field that it is made of."""
    while isinstance(expr, Apply):
        if is_node(expr) or isinstance(expr.op, Weigh):
            return False
        expr = expr.args[0]
    return True


def _lies_on_device(batch: Mapping[str, Any], device: torch.device) -> bool:
    """Whether a batch is of tensors on the device: every kind of value that only lies there says so."""
    for x in batch.values():
        values = x.values if isinstance(x, Ragged) else x
        if isinstance(values, DeviceStrings) or (isinstance(values, torch.Tensor) and values.device.type != "cpu"):
            return True
    return False


def _on_host(x: Any) -> Any:
    if isinstance(x, Ragged):
        weights = None if x.weights is None else x.weights.cpu()
        return Ragged(_on_host(x.values), tuple(o.cpu() for o in x.offsets), weights)
    if isinstance(x, DeviceStrings):
        return Strings(x.data.cpu().numpy(), x.offsets.cpu().numpy())
    return x.cpu() if isinstance(x, torch.Tensor) else x


def _unexplained() -> ConsistencyError:
    return ConsistencyError(
        "the device refuses a batch that fits its fields",
        got="offsets that do not fit, or rows that differ",
        want="tensors that nobody writes to before the features are waited for",
    )
