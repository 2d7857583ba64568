"""Where verifiers finds livery's environment: it takes top-level modules only (``vf-eval livery-verifiers``)."""

from livery.simulator.packages.verifiers_env import LiveryHarness, LiveryTaskset

__all__ = ["LiveryHarness", "LiveryTaskset"]
