"""Frontends: from a model as another framework saves it to a graph of graph ops; one folder a framework."""
