"""Running sums of a pooled unit: `sum<t>` [R, D] a target, `count` and `divisor` [R], for R batch rows at a time."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Evaluator
from colonnade.backends.gpu.kinds.writer import Writer


def nothing(shape: str) -> str:
    """-0.0: what changes no value that it is added to, -0.0 included. Triton takes a literal -0.0 for 0.0."""
    return f"tl.full({shape}, -2147483648, tl.int32).to(tl.float32, bitcast=True)"


class Sums:
    """The variables that hold the sums of `rows` batch rows.

    across: whether the lanes are elements of one batch row, to be added up, or each a batch row of its own.
    """

    def __init__(self, writer: Writer, rows: int, *, across: bool) -> None:
        self.writer = writer
        self.rows = rows
        self.across = across
        self.pooling = writer.column.pooling
        self.is_weighted = writer.column.weights is not None

    @property
    def has_divisor(self) -> bool:
        """Whether weights are added up too."""
        return self.is_weighted and self.pooling in ("mean", "sqrtn")

    def begin(self) -> None:
        """Sets all to nothing."""
        code = self.writer.code
        for t, target in enumerate(self.writer.unit.targets):
            shape = f"[{self.rows}, {target.block}]"
            start = f"tl.full({shape}, float('-inf'), tl.float32)" if self.pooling == "max" else nothing(shape)
            start = f"tl.full({shape}, 0.0, tl.float32)" if self.pooling == "marks" else start
            code.line(f"sum{t} = {start}")
        code.line(f"count = tl.full([{self.rows}], 0, tl.int32)")
        if self.has_divisor:
            code.line(f"divisor = tl.full([{self.rows}], 0.0, tl.float32)")

    def add(self, evaluator: Evaluator, keep: str) -> None:
        """Adds the elements that `keep` holds."""
        writer, column, code = self.writer, self.writer.column, self.writer.code
        ids = evaluator.number(column.ids).name
        weight = writer.weight(evaluator, column.weights)
        for t, target in enumerate(writer.unit.targets):
            rows = writer.rows_of(target, ids, writer.inside(target, ids, keep))
            if weight is not None:
                product = f"{rows} * {weight}[:, None]"
                rows = code.let(f"tl.where({rows} == 0.0, 0.0, {product})" if self.pooling == "marks" else product)
            self._add(f"sum{t}", keep, rows)
        code.line(f"count += {self._total(f'{keep}.to(tl.int32)')}")
        if self.has_divisor:
            term = weight if self.pooling == "mean" else f"{weight} * {weight}"
            code.line(f"divisor += {self._total(f'tl.where({keep}, {term}, 0.0)')}")

    def _add(self, name: str, keep: str, rows: str) -> None:
        code = self.writer.code
        if self.pooling == "max":
            rows = f"tl.where({keep}[:, None], {rows}, float('-inf'))"
            greatest = f"greatest_row({rows})" if self.across else rows
            code.line(f"{name} = tl.maximum({name}, {greatest}, propagate_nan=tl.PropagateNan.ALL)")
        else:
            rows = f"tl.where({keep}[:, None], {rows}, {nothing('[1, 1]')})"
            code.line(f"{name} += {f'sum_of_rows({rows})' if self.across else rows}")
        if self.across:
            code.used.add("reduce")

    def _total(self, values: str) -> str:
        if not self.across:
            return values
        self.writer.code.used.add("lookup")
        return f"total({values})"

    def finish(self, row: str, live: str) -> None:
        """Divides, puts default rows where no element was, and stores the batch rows `row` [R] where `live` [R]."""
        writer, code = self.writer, self.writer.code
        if not self.has_divisor:
            code.line("divisor = count.to(tl.float32)")
        if self.pooling == "sqrtn":
            code.line("divisor = tl.sqrt_rn(divisor)")
        code.line("some = count > 0")
        for t, target in enumerate(writer.unit.targets):
            if self.pooling in ("mean", "sqrtn"):
                divided = f"tl.div_rn(sum{t}, tl.where(divisor == 0.0, 1.0, divisor)[:, None])"
                code.line(f"sum{t} = tl.where((divisor == 0.0)[:, None], 0.0, {divided})")
            other = writer.default_of(target, row, f"({live} & ~some)")
            code.line(f"sum{t} = tl.where(some[:, None], sum{t}, {other})")
            writer.store(target, row, "0", f"sum{t}", live)
