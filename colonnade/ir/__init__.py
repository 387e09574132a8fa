"""The two forms of a model, graph and program: their text, inference, checks and interpreter."""
