"""`vocabulary-files`: what stands in a vocabulary file and is no word, or no word that a request has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from colonnade.errors import listed
from colonnade.frontends.tensorflow.lookup_tables import LookupTable
from colonnade.ir.explanation import Notice

KIND = "vocabulary-files"


def look(path: Path, tables: Iterable[LookupTable]) -> Iterator[Notice]:
    """One notice a file of the model in the folder `path`."""
    for table in {t.source: t for t in tables}.values():
        file = path / table.source
        if not file.is_file():
            continue
        problems = list(_problems(file.read_bytes(), table))
        if problems:
            yield Notice(
                KIND,
                f"{len(problems)} thing(s) in a vocabulary file are surely unwanted",
                where=str(file),
                got=listed(problems),
                help="write one word a line, ended by a line feed alone, and as many lines as the model reads",
            )


def _problems(data: bytes, table: LookupTable) -> Iterator[str]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if b"\r" in data:
        yield "lines end in CR LF: the CR is dropped, as in TensorFlow"
    if len(lines) > 1 and not lines[-1].strip():
        yield "the last line is blank"
    if len(lines) > len(table.keys):
        yield f"{len(lines) - len(table.keys)} of {len(lines)} lines are not read"
    if table.keys.dtype == object:
        around = [repr(key) for key in table.keys.tolist() if key != key.strip()]
        if around:
            yield f"{len(around)} words begin or end with blanks, such as {around[0]}"
