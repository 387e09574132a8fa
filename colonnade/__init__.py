"""Colonnade: every embedding column of a recommendation model in one fused kernel."""

__version__ = "0.1.0"
