"""The compiled loops that decode Examples: carried in a folder, and fit for every operand they get."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

from colonnade import compiler
from colonnade.backends.examples import LOOPS, Decoder
from colonnade.errors import FeedError
from colonnade.ir.program import Program, Weights
from tests.unit.backends.test_examples import column, program, wanted
from tests.unit.ops.graph import examples

NOTICE = "compiling the loops"
ANSWER = """
import sys
from pathlib import Path
from colonnade.backends.examples import LOOPS
from tests.unit.backends.test_example_code import decode_all
assert LOOPS.import_code(Path(sys.argv[1]))
assert decode_all() == sys.argv[2]
"""


def decode_all() -> str:
    """Decode features of every kind, in batches of every size; gives what came of it."""
    found = []
    for seed in range(60):
        r = random.Random(f"code {seed}")
        features = wanted(r)
        rows = [examples.serialized(r, features, damage=0.0) for _ in range(r.choice([0, 1, 2, 9]))]
        try:
            fields, _, _ = Decoder(program(features)).fields({"rows": column(rows)})
            found.append(str({name: str(value) for name, value in fields.items()}))
        except FeedError as error:
            found.append(error.got)
    return hashlib.sha256("".join(found).encode()).hexdigest()


def test_a_clean_machine_decodes_by_carried_code(tmp_path: Path) -> None:
    LOOPS.export_code(tmp_path / "carried")
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", ANSWER, str(tmp_path / "carried"), decode_all()],
        cwd=root,
        env={**os.environ, "COLONNADE_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and NOTICE not in done.stderr, done.stderr
    assert not (tmp_path / "cache").exists()


def test_an_artifact_carries_the_loops_where_it_decodes(tmp_path: Path) -> None:
    made = program(wanted(random.Random(1)))
    bare = Program((), (), (), (), (), ())
    for number, of in enumerate((made, bare)):
        executable = compiler.compile(of, "reference", weights=Weights({}, {}, {}))
        executable.save(tmp_path / str(number))
    carried = sorted(p.name for p in (tmp_path / "0" / "compiled").iterdir())
    assert LOOPS.host_file() in carried and len(carried) == 1 + (LOOPS.portable_file() is not None)
    assert not (tmp_path / "1" / "compiled").exists()
