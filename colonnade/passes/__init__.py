"""Passes: rewrites of a graph, each with its proof, until every embedding column can be read off it."""
