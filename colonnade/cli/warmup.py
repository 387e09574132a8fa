"""`colonnade warmup`: compile what the target cpu runs ahead of time, so that the first load does not."""

from __future__ import annotations

import time

from colonnade.backends.cpu.cache import ENGINE
from colonnade.backends.cpu.transform_code import TRANSFORM
from colonnade.backends.examples import LOOPS
from colonnade.backends.tape.tape import TAPES
from colonnade.cli.common import Debug, Json, Progress, ShowProgress, print_json, verb
from colonnade.config import settings
from colonnade.testing.timing import human_seconds
from colonnade.train.compiled import LOOPS as TRAINING


@verb
def warmup(json_: Json = False, progress: ShowProgress = False, debug: Debug = False) -> None:
    """Compile the engine, and the loops for Examples, dense networks and training, for this CPU into the cache."""
    began = time.perf_counter()
    with Progress(progress) as say:
        say("compile the engine")
        ENGINE.warm()
        say("compile the loops that decode Examples")
        LOOPS.warm()
        say("compile the loops of short dense networks")
        TAPES.warm()
        say("compile the loops of features and of training")
        TRANSFORM.warm()
        TRAINING.warm()
    seconds = time.perf_counter() - began
    folder = settings().cache_dir
    if json_:
        print_json({"cache": str(folder), "seconds": seconds})
    else:
        print(f"the compiled code is ready in {folder} ({human_seconds(seconds)})")
