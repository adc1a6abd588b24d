"""From a job graph to tasks: optimised, pruned, cut into chains; pure functions of the graph."""
