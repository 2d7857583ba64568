"""livery: run, vary, train and measure a compact agent under a harness that changes every day."""

__version__ = "0.1.0"
