"""A lane holds what one request in flight needs: a queue, blocks of memory and a graph a bucket."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.gpu.columns import TEXT_PADDING, Sources
from colonnade.backends.gpu.copies import Moves
from colonnade.backends.gpu.graphs import Queue, Work, host_memory
from colonnade.backends.gpu.header import Header
from colonnade.backends.gpu.host_tables import HostColumns
from colonnade.backends.gpu.memory import Refusal, is_exhausted, said
from colonnade.backends.gpu.staging import ALIGNMENT, Bucket, Region, Regions, Staged, StagingPlan, after
from colonnade.core.batch import Layout, Packed
from colonnade.core.objects import Empty
from colonnade.errors import IdRangeError
from colonnade.ir.program import Buffer

Array = npt.NDArray[Any]
MAX_GRAPHS = 48
"""Buckets a lane keeps: batches of 1 to 4,096 rows are 24 of them."""

MAX_NUMBERS = 1024
SPARE = 1 << 24
"""Bytes that a block may hold beyond what is wanted of it, whatever its size."""
LARGE_BYTES = 1 << 18
"""Outputs from this size on are copied from the device once for each request, into memory that the caller keeps."""


class DeviceColumns(Protocol):
    """Columns whose kernel can be enqueued."""

    @property
    def layout(self) -> Layout:
        """The fields it reads, and their places."""

    @property
    def header(self) -> Header:
        """What its requests have in their headers."""

    def workspace(self, tiles: int) -> tuple[int, int]:
        """Sizes of the float32 memory it computes in and of the int32 memory it counts in."""

    def launch(
        self,
        sources: Sources,
        capacity: int,
        outputs: Mapping[str, torch.Tensor],
        status: torch.Tensor,
        tiles: int = 0,
    ) -> None:
        """Enqueue one kernel that writes the buffers and adds the ids outside their tables to `status`."""

    def diagnose(self, packed: Packed) -> IdRangeError:
        """The error that names them."""


@dataclass(frozen=True, eq=False)
class Results:
    """Where a bucket's outputs lie in the block that comes back; constants are those that are no tensors.

    num_bytes: of the block.
    """

    regions: Mapping[str, Region]
    constants: Mapping[str, Any]
    num_bytes: int

    @property
    def are_large(self) -> bool:
        """Whether they do not go through the lane's own block on the host."""
        return self.num_bytes > LARGE_BYTES

    def views(self, block: torch.Tensor) -> dict[str, Array | torch.Tensor]:
        """The outputs in a block on the host; tensors where numpy has not their dtype."""
        found: dict[str, Array | torch.Tensor] = {}
        for name, region in self.regions.items():
            value = region.of(block)
            found[name] = value if value.dtype == torch.bfloat16 else value.numpy()
        return found


@dataclass(frozen=True, eq=False)
class Pooled:
    """What the host pools of a bucket, on its way to the device.

    host, device: the block that it takes up there.   values: what the host writes of each layout, by its buffer.
    moves: what lies in the block, and the slot that it goes to.
    """

    host: torch.Tensor
    device: torch.Tensor
    values: tuple[Mapping[str, Array], ...]
    moves: Moves

    @staticmethod
    def of(
        hosts: Sequence[HostColumns | None],
        places: Sequence[Mapping[str, Region]],
        host: torch.Tensor,
        device: torch.Tensor,
        buffers: Mapping[str, torch.Tensor],
    ) -> Pooled:
        """The views of both blocks."""
        moves = [
            (region.of(device), buffers[slot.output].narrow(1, slot.offset, slot.width))
            for columns, found in zip(hosts, places, strict=True)
            if columns is not None
            for name, region in found.items()
            for slot in columns.slots[name]
        ]
        values = tuple({name: region.of(host).numpy() for name, region in found.items()} for found in places)
        return Pooled(host, device, values, Moves.of(device, moves))


@dataclass(eq=False)
class Prepared:
    """A bucket in a lane.

    buffers: that columns write to.   pooled: what the host pools of it.   runs: how often it was run without a graph,
    since one was last tried.   results: known after the first run.   views: of small ones, in the lane's block.
    replay: its graphs, once captured: one, or what runs while the host pools and what runs after.
    """

    staged: Staged
    buffers: Mapping[str, torch.Tensor]
    pooled: Pooled | None = None
    runs: int = 0
    results: Results | None = None
    views: Mapping[str, Array | torch.Tensor] = field(default_factory=dict)
    replay: tuple[Work, ...] = ()
    values: dict[str, torch.Tensor] = field(init=False)
    """What the dense rest reads, by name."""

    def __post_init__(self) -> None:
        self.values = {**self.staged.inputs, **self.buffers}

    @property
    def regions(self) -> Regions:
        """The sizes it is for, and the layout of its block."""
        return self.staged.regions


@dataclass(eq=False)
class Block:
    """Bytes that grow. Facts: who holds the tensor from before keeps it.

    refused: the error where there is no room for more.
    """

    allocate: Callable[[int], torch.Tensor]
    refused: Refusal
    tensor: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.tensor = self._allocated(ALIGNMENT)

    def grow(self, num_bytes: int) -> bool:
        """Hold at least so many bytes; gives whether they lie elsewhere now.

        Facts: a small one doubles, a large one takes an eighth more: each growth costs the graphs of all buckets.
        """
        if num_bytes <= self.tensor.numel():
            return False
        spare = min(num_bytes, max(SPARE, num_bytes // 8))
        self.tensor = self._allocated(after(num_bytes + spare))
        return True

    def _allocated(self, num_bytes: int) -> torch.Tensor:
        try:
            return self.allocate(num_bytes)
        except RuntimeError as error:
            if not is_exhausted(error):
                raise
            raise self.refused(f"{num_bytes:,} bytes more; {said(error)}") from error


class Lane:
    """Facts: one request at a time uses it."""

    def __init__(
        self,
        queue: Queue,
        plan: StagingPlan,
        buffers: Sequence[Buffer],
        rows: Sequence[Any],
        columns: Sequence[DeviceColumns],
        refused: Refusal,
        hosts: Sequence[HostColumns | None] = (),
    ) -> None:
        self.queue = queue
        self._hosts = tuple(hosts)
        self._columns = tuple(columns)
        self._work, self._arrivals = Block(queue.device_memory, refused), Block(queue.device_memory, refused)
        self._zero_arrivals()
        self._plan = plan
        self._buffer_rows = tuple(zip(buffers, rows, strict=True))
        self._prepared: OrderedDict[Bucket, Prepared] = OrderedDict()
        self._numbers: dict[tuple[str, int], Array] = {}
        self._strings: dict[int, tuple[Array, int]] = {}
        self._host_in, self._device_in = (
            Block(partial(host_memory, queue.device), refused),
            Block(queue.device_memory, refused),
        )
        self._buffers = Block(queue.device_memory, refused)
        self._pooled = (
            Block(partial(host_memory, queue.device), refused),
            Block(queue.device_memory, refused),
        )
        self.host_out = host_memory(queue.device, LARGE_BYTES)
        self.host_statuses = self._statuses_of(self.host_out).numpy()
        self.device_out = Block(queue.device_memory, refused)
        self.grow_out(after(8 * len(plan.layouts)))

    def numbers(self, dtype: str, rows: int) -> Array:
        """The first layout's buffer of a dtype for so many rounded rows, in the host block."""
        found = self._numbers.get((dtype, rows))
        if found is None:
            region = self._plan.first(dtype, rows)
            self._grow_in(region.end)
            if len(self._numbers) > MAX_NUMBERS:
                self._numbers.clear()
            self._numbers[dtype, rows] = found = region.of(self._host_in.tensor).numpy()
        return found

    def offsets(self, rows: int) -> Array | None:
        """The block's offsets of all strings for so many rounded rows; None where their place is not known yet."""
        found = self._strings_at(rows)
        return None if found is None else found[0]

    def text(self, rows: int, num_bytes: int) -> Array | None:
        """The block's bytes of all strings."""
        found = self._strings_at(rows)
        if found is None:
            return None
        end = found[1] + num_bytes
        self._grow_in(end + TEXT_PADDING)
        return self._host_in.tensor[found[1] : end].numpy()

    def _strings_at(self, rows: int) -> tuple[Array, int] | None:
        if rows not in self._strings:
            places = self._plan.first_strings(rows)
            if places is None:
                return None
            offsets, start = places
            self._grow_in(offsets.end)
            if len(self._strings) > MAX_NUMBERS:
                self._strings.clear()
            self._strings[rows] = (offsets.of(self._host_in.tensor).numpy(), start)
        return self._strings[rows]

    def prepare(self, bucket: Bucket) -> Prepared:
        """The bucket's views of the blocks, and what is known of it from before."""
        found = self._prepared.get(bucket)
        if found is None:
            found = self._made(bucket)
            self._prepared[bucket] = found
            if len(self._prepared) > MAX_GRAPHS:
                self._prepared.popitem(last=False)
        else:
            self._prepared.move_to_end(bucket)
        return found

    def grow_out(self, num_bytes: int) -> bool:
        """Make room for outputs on the device; gives whether they lie elsewhere now."""
        moved = self.device_out.grow(num_bytes)
        if moved:
            for prepared in self._prepared.values():
                prepared.replay = ()
        return moved

    def statuses(self) -> torch.Tensor:
        """How many ids are outside their tables, by layout: on the device, at the head of the outputs."""
        return self._statuses_of(self.device_out.tensor)

    def _statuses_of(self, block: torch.Tensor) -> torch.Tensor:
        return Region(0, torch.int64, (len(self._plan.layouts),)).of(block)

    def _grow_in(self, num_bytes: int) -> None:
        if self._host_in.grow(num_bytes) | self._device_in.grow(num_bytes):
            self._prepared.clear()
            self._numbers.clear()
            self._strings.clear()

    def _made(self, bucket: Bucket) -> Prepared:
        regions = self._plan.regions(bucket)
        self._grow_in(regions.num_bytes)
        places: dict[str, Region] = {}
        end = 0
        for buffer, rows in self._buffer_rows:
            places[buffer.name] = region = Region(after(end), torch.float32, (rows(regions.sizes), buffer.width))
            end = region.end
        if self._buffers.grow(after(end)):
            self._prepared.clear()
        works = self._works(regions)
        headers = [columns.header for columns in self._columns]
        staged = Staged(regions, self._host_in.tensor, self._device_in.tensor, headers, works)
        buffers = {name: region.of(self._buffers.tensor) for name, region in places.items()}
        return Prepared(staged, buffers, self._pooled_of(regions, buffers))

    def _pooled_of(self, regions: Regions, buffers: Mapping[str, torch.Tensor]) -> Pooled | None:
        """Views of what the host pools of a bucket."""
        if not any(self._hosts):
            return None
        places: list[dict[str, Region]] = []
        end = 0
        for host, rows in zip(self._hosts, regions.rows, strict=True):
            places.append({})
            for name, width in () if host is None else host.widths.items():
                places[-1][name] = region = Region(after(end), torch.float32, (rows, width))
                end = region.end
        here, there = self._pooled
        if here.grow(after(end)) | there.grow(after(end)):
            self._prepared.clear()
        return Pooled.of(self._hosts, places, here.tensor[: after(end)], there.tensor[: after(end)], buffers)

    def _zero_arrivals(self) -> None:
        self.queue.run(lambda: self._arrivals.tensor.zero_())
        # A later one that is larger frees this memory: to others, while it would still be written here.
        self.queue.wait()

    def _works(self, regions: Regions) -> list[tuple[torch.Tensor | None, torch.Tensor | None]]:
        """Where each layout's kernel computes and counts. Facts: the counts are 0 before and after every launch."""
        sizes = [c.workspace(tiles) for c, tiles in zip(self._columns, regions.tiles, strict=True)]
        ends = [0, 0]
        places: list[tuple[Region, Region]] = []
        for work, arrivals in sizes:
            pair = Region(after(ends[0]), torch.float32, (work,)), Region(after(ends[1]), torch.int32, (arrivals,))
            places.append(pair)
            ends = [region.end for region in pair]
        if self._work.grow(ends[0]):
            self._prepared.clear()
        if self._arrivals.grow(ends[1]):
            self._prepared.clear()
            self._zero_arrivals()
        return [
            (
                work.of(self._work.tensor) if work.shape[0] else None,
                arrivals.of(self._arrivals.tensor) if arrivals.shape[0] else None,
            )
            for work, arrivals in places
        ]


class LanePool:
    """Lanes for concurrent callers. Facts: at most `limit` are ever made; callers beyond wait."""

    def __init__(self, make: Callable[[], Lane], limit: int) -> None:
        self._make = make
        self._idle: list[Lane] = []
        self._free = threading.Semaphore(limit)
        self.made = 0

    def take(self) -> Lane:
        """The lane used last among the idle ones: it holds most graphs."""
        self._free.acquire()
        try:
            return self._idle.pop()
        except IndexError:
            pass
        lane = None
        try:
            lane = self._make()
        finally:
            if lane is None:
                self._free.release()
        self.made += 1
        return lane

    def give(self, lane: Lane) -> None:
        """The lane's request is answered."""
        self._idle.append(lane)
        self._free.release()


class Reserved:
    """A lane on loan to one request, and the memory in it that numbers are packed into."""

    __slots__ = ("_plan", "_pool", "lane")

    def __init__(self, pool: LanePool, plan: StagingPlan) -> None:
        self._pool = pool
        self._plan = plan
        self.lane = pool.take()

    def array(self, layout: Layout, dtype: str, rows: int) -> Array:
        """The buffer of a dtype, in the block that goes to the device where its place is known already."""
        size, rounded = rows * layout.widths[dtype], self._plan.first_rows(layout, rows)
        if rounded is None or dtype not in self._plan.layouts[0].widths:
            return np.empty(size, dtype)
        return self.lane.numbers(dtype, rounded)[:size]

    def strings(self, layout: Layout, rows: int) -> Empty:
        """Makes offsets and bytes in the block that goes to the device, where their place is known already."""
        rounded = self._plan.first_rows(layout, rows)
        if rounded is None:
            return np.empty
        wanted, are_all = rows * layout.widths["string"] + 1, False

        def empty(count: int, dtype: Any) -> Array:
            nonlocal are_all
            found: Array | None = None
            if dtype == np.int64:
                are_all = count == wanted
                found = self.lane.offsets(rounded) if are_all else None
            elif are_all:
                found = self.lane.text(rounded, count)
            return np.empty(count, dtype) if found is None else found[:count]

        return empty

    def close(self) -> None:
        """Give the lane back."""
        self._pool.give(self.lane)
