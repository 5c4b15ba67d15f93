"""The README's first command answers once, with the starter that is here already."""

import os
import shutil
import subprocess
from pathlib import Path

from models.files import HOME_VARIABLE
from models.starter import MARKER_NAME, STARTER

ROOT = Path(__file__).parents[2]
STORIES = ROOT / "tests" / "data" / "stories260K"
PROMPT = 'Say "once upon a time", and what $HOME costs'


def test_make_run_answers_a_prompt(tmp_path):
    starter = tmp_path / "models" / STARTER.name  # the real one's place, a smaller model
    shutil.copytree(STORIES, starter)
    (starter / MARKER_NAME).write_text(STARTER.gguf_sha256)
    ran = subprocess.run(
        ["make", "--silent", "--assume-old=.venv/.ready", "run", f"PROMPT={PROMPT}"],
        cwd=ROOT,
        env=os.environ | {HOME_VARIABLE: str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.split()) > 20
    assert "tokens/s" in ran.stderr
