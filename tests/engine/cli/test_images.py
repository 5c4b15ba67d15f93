"""Pictures in a terminal: `--image`, `/image`, and what the doctor says of them."""

import json

import pytest

from engine.cli import doctor
from engine.cli.chat import save
from models.model_folder import inspect
from tests.support.engine.pictures import VOCABULARY, picture, said, seeing, seeing_tokenizer
from tests.support.engine.seeing_folders import write_seeing
from tests.support.engine.terminal import Table
from tests.support.engine.tiny import shallow, write_folder


def named(pictures):
    return {f"{number}.jpg": each for number, each in enumerate(pictures)}


def shown(table):
    return [message.pictures for message in table.asked]


@pytest.fixture
def pictures(tmp_path):
    return [picture(tmp_path, number) for number in range(2)]


@pytest.fixture
def sighted(tmp_path):
    tokenizer = seeing_tokenizer(tmp_path / "tokenizer")
    return seeing(shallow("llama", vocabulary=VOCABULARY), tokenizer, "llama")


def test_a_picture_goes_with_the_next_message_that_is_shown(sighted, pictures):
    table = Table(sighted, files=named(pictures))
    for line, why in [("/image", "picture's name is missing"), ("/image 7.jpg", "Look for it")]:
        assert why in table.say(line)
    table.say("So?")
    assert "0.jpg: 12 x 8 pixels, 8 tokens" in table.say("/image 0.jpg", "/regenerate")
    assert shown(table) == [()]
    table.say("And?", "/image 1.jpg", "/image 0.jpg", "Those?", "/regenerate")
    assert shown(table) == [(), (pictures[0],), (pictures[1], pictures[0])]
    object.__setattr__(sighted, "tower", None)
    blind = Table(sighted, files=named(pictures))
    assert "cannot see" in blind.say("/image 0.jpg", "So?")
    assert shown(blind) == [()]
    table.attachments.close()
    blind.attachments.close()


def test_a_chat_is_saved_with_its_pictures(tmp_path, pictures):
    messages = [said("So?", pictures[0]), said("It is.", role="assistant")]
    save(messages, tmp_path / "chat.json")
    shown, text = json.loads((tmp_path / "chat.json").read_text())["messages"][0]["content"]
    address = shown["image_url"]["url"]
    assert address.startswith("data:image/png;base64,")
    assert text == {"type": "text", "text": "So?"}
    save(messages, tmp_path / "chat.md")
    assert (tmp_path / "chat.md").read_text().startswith("**user**\n\n*a picture*\n\nSo?\n")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model that sees, and one that does not."""
    root = tmp_path_factory.mktemp("folders")
    write_folder("llama", root / "blind", layers=2)
    return {"sees": write_seeing("qwen3_vl", root / "sees"), "blind": root / "blind"}


@pytest.mark.usefixtures("read_here")
def test_images_of_the_command_line(generate, asked, pictures):
    shown = generate("--image", pictures[0].path)
    assert shown.code == 0, shown.err
    assert "12 x 8 pixels" in shown.err
    (picture,) = asked[1].prompt.messages[0].pictures
    assert (picture.width, picture.height) == (12, 8)


def test_the_doctor_says_whether_a_target_sees(folders):
    sees = doctor.check_sight(inspect(folders["sees"]))
    assert "supported" in sees.fact
    assert "tokens" in sees.fact
    blind = doctor.check_sight(inspect(folders["blind"]))
    assert "cannot see" in blind.fact
    assert (sees.usable, blind.usable) == (True, True)
