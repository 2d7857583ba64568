"""Whoever decides the next action, behind one interface: see `livery.policies.policy`, open one by URI."""

from livery.policies.open import open_policy
from livery.policies.policy import Policy, PolicyRequest, PromptMessage, ToolSurface

__all__ = ["Policy", "PolicyRequest", "PromptMessage", "ToolSurface", "open_policy"]
