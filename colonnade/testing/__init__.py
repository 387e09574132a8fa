"""What outsiders check their own ops, passes and backends with; nothing below imports it."""
