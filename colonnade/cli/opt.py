"""`colonnade opt MODEL`: passes on a model's graph, as text; which pass made an answer wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from colonnade import compiler
from colonnade.cli.common import (
    Debug,
    Json,
    Outputs,
    Progress,
    Seed,
    ShowProgress,
    Signature,
    Tags,
    names,
    print_json,
    verb,
)
from colonnade.cli.run import read_npz
from colonnade.errors import ColonnadeError, FeedError, OptionError, listed
from colonnade.frontends.tensorflow.importer import import_saved_model
from colonnade.ir.graph import Graph, facts_of
from colonnade.ir.graph_text import print_graph
from colonnade.ir.infer import infer
from colonnade.ir.interpret import interpret
from colonnade.passes.base import Pass, bisect, run
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.compare import allowed_of_dense, difference
from colonnade.testing.hints import hints_from
from colonnade.testing.models.feeds import Hints, corner_feed
from colonnade.testing.models.spec import TensorSpec

RTOL = 1e-5
BATCH = 48


@verb
def opt(
    model: Annotated[Path, typer.Argument(help="A SavedModel folder.")],
    passes: Annotated[
        str | None, typer.Option("--passes", help="These passes, in this order; `none` for none.")
    ] = None,
    print_after: Annotated[
        str | None, typer.Option("--print-after", help="Print after this pass too, or `all`.")
    ] = None,
    bisect_by: Annotated[
        str | None,
        typer.Option("--bisect", help="Find the first pass that changes the answer to this .npz, or `auto`."),
    ] = None,
    signature: Signature = None,
    outputs: Outputs = None,
    tags: Tags = None,
    seed: Seed = 0,
    json_: Json = False,
    progress: ShowProgress = False,
    debug: Debug = False,
) -> None:
    """Run passes on a model and print the graph; or bisect a wrong answer."""
    chosen = choose(passes)
    if print_after not in (None, "all", *(p.name for p in chosen)):
        raise OptionError("no such pass", got=str(print_after), want=", ".join(["all", *(p.name for p in chosen)]))
    with Progress(progress) as say:

        def load() -> Graph:
            say(f"import {model}")
            return import_saved_model(model, signature, names(outputs), names(tags)).graph

        if bisect_by is not None:
            _bisect(load, chosen, _feed(bisect_by, load(), model, signature, names(tags), seed), json_, say)
            return
        graph = load()
        shown: list[str] = []

        def observe(name: str, graph: Graph) -> None:
            if print_after in ("all", name):
                shown.append(f"after {name}\n{print_graph(graph, sources=True)}")

        say("run passes")
        log = run(chosen, graph, observe=observe)
        text = print_graph(graph, sources=True)
    if json_:
        counts = [{"pass": n, "before": b, "after": a, "seconds": s} for n, b, a, s in log.counts]
        print_json({"passes": counts, "printed": shown, "graph": text})
        return
    for part in [*shown, text]:
        typer.echo(part)


def choose(text: str | None) -> tuple[Pass, ...]:
    """The passes of a list of names; without one, the pipeline. Errors: OptionError that lists those unknown."""
    if text is None:
        return COLUMNS
    if text.strip() == "none":
        return ()
    known = {p.name: p for p in COLUMNS}
    wanted = names(text) or ()
    unknown = [n for n in wanted if n not in known]
    if unknown:
        raise OptionError("no such pass", got=", ".join(unknown), want=", ".join(known))
    return tuple(known[n] for n in wanted)


def _feed(
    text: str, graph: Graph, model: Path, signature: str | None, tags: tuple[str, ...] | None, seed: int
) -> dict[str, Any]:
    if text != "auto":
        path = Path(text)
        if path.suffix != ".npz" or not path.is_file():
            raise OptionError("--bisect takes a .npz that exists, or `auto`", got=text)
        return {key: _value(value) for key, value in _fitting(read_npz(path), graph, path).items()}
    infer(graph)
    try:
        hints = hints_from(compiler.lower(model, signature, tags=tags)[0])
    except ColonnadeError:
        hints = Hints()  # the graph to bisect may not get as far as columns
    specs = []
    for key, node in graph.inputs.items():
        known = facts_of(node)
        shape = None if known.shape is None else tuple(d if isinstance(d, int) else None for d in known.shape)
        specs.append(TensorSpec(key, known.dtype, shape))
    feed = corner_feed(specs, BATCH, np.random.default_rng(seed), hints)
    return {key: _value(value) for key, value in feed.items()}


def _fitting(feed: dict[str, Any], graph: Graph, path: Path) -> dict[str, Any]:
    """The feed as it is. Errors: FeedError that lists every value of another dtype than its input's."""
    infer(graph)
    wants = {key: facts_of(node).dtype for key, node in graph.inputs.items()}
    have = {key: "string" if value.dtype.kind in "OSU" else str(value.dtype) for key, value in feed.items()}
    wrong = [key for key in have if key in wants and have[key] != wants[key]]
    if wrong:
        raise FeedError(
            "the request does not fit the signature",
            where=str(path),
            got=listed([f"{key}: is {have[key]}" for key in wrong]),
            want=listed([f"{key}: {wants[key]}" for key in wrong]),
        )
    return feed


def _value(array: Any) -> Any:
    """As the interpreter takes it: strings as objects, numbers as tensors."""
    if array.dtype.kind in "OSU":
        return array.astype("S").astype(object) if array.dtype.kind == "U" else array.astype(object)
    return torch.from_numpy(np.ascontiguousarray(array))


def _bisect(load: Any, chosen: tuple[Pass, ...], feed: dict[str, Any], json_: bool, say: Progress) -> None:
    graph = load()
    want = {key: np.asarray(value) for key, value in interpret(graph, feed).items()}

    def good(count: int) -> bool:
        say(f"try the first {count} passes")
        graph = load()
        run(chosen, graph, stop_after=count)
        got = interpret(graph, feed)
        return all(
            difference(np.asarray(got[key]), value, allowed_of_dense(value, RTOL)).ok for key, value in want.items()
        )

    first = bisect(len(chosen), good)
    name = None if first is None else chosen[first - 1].name
    if json_:
        print_json({"first_wrong": name, "after_passes": first})
    elif first is None:
        typer.echo("every pass keeps the answer")
    else:
        typer.echo(f"the answer is wrong from pass {first} on: {name}")
