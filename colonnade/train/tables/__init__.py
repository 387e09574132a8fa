"""Dynamic tables: maps from any 64-bit id to rows that are made when an id is first seen."""
