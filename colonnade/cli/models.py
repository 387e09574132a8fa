"""An executable from what a user names: an artifact, or a SavedModel that is compiled on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from colonnade import artifact, compiler
from colonnade.cli.common import Progress
from colonnade.errors import OptionError, listed
from colonnade.executable import Executable
from colonnade.ir.column import ID_POLICIES
from colonnade.ir.explanation import Explanation
from colonnade.ir.program import Program, Weights
from colonnade.testing.sides import TensorFlowSide
from colonnade.testing.tensorflow import quiet_tensorflow


def is_artifact(path: Path) -> bool:
    """Whether the folder has a manifest."""
    return (path / artifact.MANIFEST).is_file()


def open_executable(
    path: Path,
    progress: Progress,
    *,
    target: str | None = None,
    signature: str | None = None,
    outputs: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    id_policy: str | None = None,
    threads: int | None = None,
    check: str = "fast",
    gpu_table_budget: int | None = None,
) -> Executable:
    """Load an artifact, or compile a SavedModel. Errors: OptionError for options that an artifact has settled."""
    if not is_artifact(path) and path.is_dir() and (path / "saved_model.pb").exists():
        return compiler.compile(
            path,
            target or "cpu",
            signature,
            outputs=outputs,
            tags=tags,
            id_policy=id_policy or ID_POLICIES[0],
            threads=threads,
            gpu_table_budget=gpu_table_budget,
            progress=progress,
        )
    settled = [name for name, value in (("--signature", signature), ("--outputs", outputs), ("--tags", tags)) if value]
    if settled:
        raise OptionError(
            "an artifact has one signature and its outputs",
            where=str(path),
            got=", ".join(settled),
            help="leave these out, or name the SavedModel itself",
        )
    progress(f"load {path}")
    return compiler.load(
        path, target, check=check, threads=threads, id_policy=id_policy, gpu_table_budget=gpu_table_budget
    )


@dataclass(frozen=True)
class Opened:
    """A program with what its compilation did."""

    program: Program
    weights: Weights
    explanation: Explanation


def open_program(
    path: Path,
    progress: Progress,
    *,
    signature: str | None = None,
    outputs: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> Opened:
    """What `explain` needs: without compiling anything where the path is a model."""
    if is_artifact(path):
        executable = open_executable(path, progress, target="reference", signature=signature)
        return Opened(executable.program, executable.weights, executable.explanation)
    program, weights, explanation, _ = compiler.lower(path, signature, outputs=outputs, tags=tags, progress=progress)
    return Opened(program, weights, explanation)


def tensorflow_side(
    model: Path,
    executable: Executable,
    signature: str | None,
    tags: Sequence[str] | None,
    threads: int | None = None,
    *,
    optimize: bool = False,
) -> TensorFlowSide:
    """The model in TensorFlow, under the signature asked for or else the one the executable was compiled from.

    Errors: OptionError where it lacks what the executable reads or gives.
    """
    quiet_tensorflow()
    key = signature or executable.explanation.signature or None
    side = TensorFlowSide(model, executable.program, key, tags or ("serve",), threads, optimize=optimize)
    program, model_side = executable.program, side.model
    given = {"input": model_side.inputs(), "output": model_side.outputs()}
    has = {f"{kind} {spec.name}: {spec.dtype}" for kind, specs in given.items() for spec in specs}
    wanted = [f"input {i.name}: {i.dtype}" for i in program.signature]
    wanted += [f"output {o.name}: {'string' if o.decimal else o.dtype}" for o in program.outputs]
    missing = [each for each in wanted if each not in has]
    if missing:
        side.close()
        raise OptionError(
            "the model is not the one that this was compiled from",
            where=str(model),
            got=listed([f"no {each}" for each in missing]),
            help="give --against the model it was compiled from, and the same --signature",
        )
    return side
