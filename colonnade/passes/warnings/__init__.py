"""What is legal in a program and surely unwanted: one file a kind, listed in `passes/pipelines.py`."""
