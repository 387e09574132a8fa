"""The kinds of units: what the code of each does for one tile. One kind a file."""
