"""Compile: who calls whom, from a function to compiled graphs.  Read `api.compile` and `dispatch.Compiled.call` first."""
