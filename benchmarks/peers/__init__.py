"""The same queries on batch engines, to be measured beside ours."""
