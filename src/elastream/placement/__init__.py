"""Pure planners, one algorithm a file: a problem in, a plan out, no clock, no I/O, no Spark."""
