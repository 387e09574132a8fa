"""The artifact: the directory that a compiled model is saved in and loaded from.

    manifest.json              format, versions, source, and size and sha256 of every file
    program.txt                the program's text
    consts.safetensors         constants that the text names by digest
    dense.safetensors          parameters of the dense rest
    tables/0000-NAME.safetensors   one table a file; rows start at a multiple of 4,096; an identity matrix: its size
    compiled/...               files of the backend, opaque
    golden/golden.safetensors  recorded requests and answers

Facts: written to a temporary sibling and renamed, so that an interrupt leaves the old artifact; the same content gives
the same bytes.
"""

from colonnade.artifact.content import CONSTS, DENSE, GOLDEN, PROGRAM, Golden, Progress
from colonnade.artifact.loading import CHECKS, Loaded, load, verify_files
from colonnade.artifact.manifest import FORMAT, MANIFEST, FileFacts, Manifest, manifest_text, read_manifest, same_source
from colonnade.artifact.writing import Written, refresh, save

__all__ = [
    "CHECKS",
    "CONSTS",
    "DENSE",
    "FORMAT",
    "GOLDEN",
    "MANIFEST",
    "PROGRAM",
    "FileFacts",
    "Golden",
    "Loaded",
    "Manifest",
    "Progress",
    "Written",
    "load",
    "manifest_text",
    "read_manifest",
    "refresh",
    "same_source",
    "save",
    "verify_files",
]
