"""The table of column kinds: which kind of column, written in which style, runs on which backend.

Every cell that says `ok` is built, compiled and compared with TensorFlow by `tests/oracle/test_kinds.py`, and every
other one is shown to be refused. A cell is a line of `columns.py`, `plain.py` or `keras_layers.py`.
"""
