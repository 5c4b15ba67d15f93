"""The product's engine, with the network of known replies in place of one of mlx-lm's.

`python -m tests.lab.five_families.engine`: as `slipstream`, and so are the engines that it starts.
Notes the tokens of each prompt in the file that PROMPTS_FILE names, a line of JSON each.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from engine.cli.main import main
from engine.conversation.session import Session
from engine.process import client
from tests.lab.five_families import network

ARCHITECTURE = "gpt2"  # which none of the families is
COMMAND = (sys.executable, "-m", "tests.lab.five_families.engine")
PROMPTS = "PROMPTS_FILE"


def _noting(path: Path) -> None:
    prepare = Session.prepare

    def noted(self: Session, *given: Any, **named: Any) -> Any:
        answer = prepare(self, *given, **named)
        with path.open("a") as file:
            file.write(json.dumps(answer.tokens) + "\n")
        return answer

    Session.prepare = noted  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.modules[f"mlx_lm.models.{ARCHITECTURE}"] = network
    client.host_command = lambda: (*COMMAND, "host")
    if PROMPTS in os.environ:
        _noting(Path(os.environ[PROMPTS]))
    main()
