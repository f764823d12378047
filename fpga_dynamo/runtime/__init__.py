"""Programs at run time: calls, scheduling, drivers, what can be observed. May import lowering and all below."""
