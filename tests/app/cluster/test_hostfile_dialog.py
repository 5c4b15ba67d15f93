"""The dialog writes what the commands read, and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from app.cluster.hostfile_dialog import HostfileDialog
from engine.cluster.hosts import MOST_HOSTS, read_hosts
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)


@pytest.fixture
def dialog(qtbot: QtBot) -> Iterator[HostfileDialog]:
    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = HostfileDialog(parent)
    dialog.show()
    yield dialog
    parent.close()


def save(dialog: HostfileDialog, path: Path) -> None:
    dialog.save()
    asked = dialog.findChild(QFileDialog)
    assert asked is not None
    asked.fileSelected.emit(str(path))


def test_what_is_entered_is_a_hostfile(dialog: HostfileDialog, tmp_path: Path) -> None:
    made: list[Path] = []
    dialog.made.connect(made.append)
    dialog.more.click()  # a row that stays empty
    dialog.names[1].setText(" me@mini.local ")
    dialog.addresses[0].setText("192.168.0.1")
    dialog.addresses[1].setText("192.168.0.2")
    save(dialog, tmp_path / "macs.json")
    assert made == [tmp_path / "macs.json"]
    here, mini = read_hosts(made[0]).each
    assert here.is_here
    assert (mini.ssh, mini.addresses) == ("me@mini.local", ("192.168.0.2",))


@pytest.mark.parametrize("address", ["192.168.0.300", "0.0.0.0", "fe80::1"])
def test_what_is_no_address_is_told_before_anything_is_written(
    dialog: HostfileDialog, address: str
) -> None:
    dialog.addresses[0].setText("192.168.0.1")
    dialog.names[1].setText("mini.local")
    dialog.addresses[1].setText(address)
    dialog.save()
    assert dialog.findChild(QFileDialog) is None
    assert dialog.line.tone == "warning"
    assert "mini.local" in dialog.line.text
    assert "macs.json" not in dialog.line.text, "there is no such file yet"


@pytest.mark.parametrize(
    ("here", "name", "address"),
    [
        ("192.168.0.1", "mini.local", ""),
        ("192.168.0.1", " ", "192.168.0.2"),
        ("", "mini.local", "192.168.0.2"),
    ],
)
def test_a_mac_without_a_name_or_an_address_is_told(
    dialog: HostfileDialog, here: str, name: str, address: str
) -> None:
    dialog.addresses[0].setText(here)
    dialog.names[1].setText(name)
    dialog.addresses[1].setText(address)
    dialog.save()
    assert dialog.findChild(QFileDialog) is None
    assert dialog.line.tone == "warning"
    assert "''" not in dialog.line.text, "no empty text is quoted"


def test_this_mac_alone_is_told(dialog: HostfileDialog) -> None:
    dialog.addresses[0].setText("192.168.0.1")
    dialog.save()
    assert dialog.line.tone == "warning"


def test_a_file_that_cannot_be_written_is_told(dialog: HostfileDialog, tmp_path: Path) -> None:
    made: list[Path] = []
    dialog.made.connect(made.append)
    dialog.names[1].setText("mini.local")
    for number, address in enumerate(dialog.addresses, start=1):
        address.setText(f"192.168.0.{number}")
    save(dialog, tmp_path / "no folder" / "macs.json")
    assert made == []
    assert dialog.isVisible()
    assert dialog.line.tone == "warning"


def test_there_are_as_many_macs_as_can_join(dialog: HostfileDialog) -> None:
    while dialog.more.isEnabled():
        dialog.more.click()
    assert len(dialog.names) == len(dialog.addresses) == MOST_HOSTS
