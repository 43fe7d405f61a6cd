"""The commands as functions, for notebooks, scripts and tests. They return what `answers` holds, not text."""
