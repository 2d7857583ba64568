"""The tiny model and its tokenizer stand with the policies' tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "policies"))
