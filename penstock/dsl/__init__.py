"""The language: streams, windows, joins, aggregates, sources and sinks as users write them."""
