"""The simulator packaged for other libraries: a verifiers environment, an OpenEnv session, an inspect-ai task.

Each module needs its own library, and none of them is a dependency of livery; the agent's loop is the same everywhere.
"""
