"""The workflow that tries the bundle on Macs: what must hold of it, whoever changes it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from engine.cli.main import app

ROOT = Path(__file__).parents[2]
FILE = ROOT / ".github" / "workflows" / "macos.yml"
SIGNING = ROOT / "packaging" / "sign" / "sign_notarize.sh"
EXPRESSION = re.compile(r"\$\{\{.*?\}\}")


@pytest.fixture(scope="module")
def workflow():
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def steps(workflow):
    return [(name, step) for name, job in workflow["jobs"].items() for step in job["steps"]]


def test_only_a_release_has_secrets_and_may_write(workflow):
    used = re.findall(r"uses: (.*)", FILE.read_text(encoding="utf-8"))
    assert len(used) > 5
    for action in used:
        assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v[\d.]+", action), action
    assert workflow["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 60 for job in workflow["jobs"].values())
    for job in ("test", "lossless"):
        systems = workflow["jobs"][job]["strategy"]["matrix"]["os"]
        assert systems == ["macos-14", "macos-15", "macos-26"]
    for name, job in workflow["jobs"].items():
        assert ("permissions" in job) is (name == "release")
        assert ("secrets." in str(job)) is (name == "release")
    release = workflow["jobs"]["release"]
    assert release["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(release["needs"]) == {"test", "lossless"}
    assert workflow["jobs"]["test"]["needs"] == "build"
    for step in release["steps"]:
        if "secrets." in str(step.get("env", "")):
            assert step["if"] == "env.CAN_SIGN == 'true'"
    scripts = [step.get("run", "") for _, step in steps(workflow)]
    assert "--draft" in " ".join(scripts)
    assert "SHA256SUMS" in " ".join(scripts)
    for script in scripts:
        # What a tag or a title is called would be run: values reach scripts by the environment.
        assert not EXPRESSION.search(script), script


def test_files_targets_commands_and_options_that_it_names_are_there(workflow):
    scripts = "\n".join(step.get("run", "") for _, step in steps(workflow))
    names = re.findall(r"\b((?:packaging|tests)/[\w/]+\.\w+)", scripts)
    assert len(names) > 3
    for name in names:
        assert (ROOT / name).is_file(), name
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    lines = re.findall(r"^ *make ([a-z -]*)", scripts, re.MULTILINE)
    assert lines
    for line in lines:
        assert set(line.split()) <= set(targets), line
    assert os.access(SIGNING, os.X_OK)
    engine = vars(typer.main.get_command(app))["commands"]
    asked = re.findall(r"(?:-m engine|bin/slipstream) (\w+)(.*)", scripts.replace("\\\n", " "))
    assert {name for name, _ in asked} == {"bench", "doctor", "generate"}
    for name, rest in asked:
        options = {option for parameter in engine[name].params for option in parameter.opts}
        assert set(re.findall(r"(?<=\s)--[\w-]+", rest)) <= options, name


def test_scripts_are_sound_shell(workflow, tmp_path):
    called = subprocess.run(["bash", str(SIGNING)], capture_output=True, text=True)
    assert called.returncode == 2
    assert called.stderr.startswith("Signs Slipstream.app with a Developer ID")
    assert "KEYCHAIN" in called.stderr.splitlines()[-1]
    files = [SIGNING]
    for number, (_, step) in enumerate(steps(workflow)):
        if "run" in step:
            files.append(tmp_path / f"{number}.sh")
            files[-1].write_text(f"#!/bin/bash\nset -e\n{step['run']}")
    for program, read in (("shellcheck", files), ("actionlint", [FILE])):
        if found := shutil.which(program):
            command = [found, *map(str, read)]
            checked = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
            assert checked.returncode == 0, checked.stdout
