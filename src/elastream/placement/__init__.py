"""Pure planners, one algorithm per file: a problem in, a plan out, no clock, no I/O, no Spark."""
