"""The compiled loops of training on a CPU."""
