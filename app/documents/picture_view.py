"""A picture of a chat: small next to its name, and large in a dialog. Read in another thread."""

from pathlib import Path

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QGuiApplication,
    QImage,
    QImageReader,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
)
from PySide6.QtWidgets import QDialogButtonBox, QSizePolicy, QWidget

from app.layout import column_of
from app.steps import Stepper, Steps, in_thread
from app.theme.dialog import Dialog
from app.theme.labels import closing, plain_label

_RADIUS = 5.0
_GONE = "The picture’s copy was deleted."
_DIALOG = QSize(960, 720)


class PictureView(QWidget):
    """A picture, as large as it fits. Attribute: `image`, null until it is read, and if it cannot
    be. Signals: `clicked()`, with the pointer; `shown()`: the picture is read."""

    clicked = Signal()
    shown = Signal()

    def __init__(self, side: int = 0) -> None:
        """`side`: the height in pixels of a small one, unless the picture itself is lower, and its
        width follows; 0 for a large one."""
        super().__init__()
        self._side = side
        self.path: Path | None = None
        self.image = QImage()
        self._stepper = Stepper(self)
        if side:
            self.setFixedSize(side, side)
            self.setCursor(Qt.CursorShape.PointingHandCursor)
        else:
            self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_picture(self, path: Path | None) -> None:
        """Show the picture at `path`; nothing for None."""
        if path == self.path:
            return
        self.path, self.image = path, QImage()
        if path is not None:
            self._stepper.run(self._steps(path), failed=lambda problem: None)
        self.update()

    def _steps(self, path: Path) -> Steps:
        density = self.devicePixelRatioF()
        most = round(self._side * density) if self._side else 0
        image: QImage = yield in_thread(lambda: _read(path, most))
        if path != self.path:
            return
        self.image = image
        if self._side and not image.isNull():
            self.image.setDevicePixelRatio(density)
            size = (image.size() / density).boundedTo(QSize(2 * self._side, self._side))
            self.setFixedSize(size)
        self.update()
        self.shown.emit()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.image.isNull():
            return
        size = self.image.size().scaled(self.size(), Qt.AspectRatioMode.KeepAspectRatio)
        if not self._side:  # no larger than it is
            size = size.boundedTo(self.image.size())
        box = QRectF(
            (self.width() - size.width()) / 2,
            (self.height() - size.height()) / 2,
            size.width(),
            size.height(),
        )
        path = QPainterPath()
        path.addRoundedRect(box, _RADIUS, _RADIUS)
        with QPainter(self) as painter:
            painter.setRenderHints(
                QPainter.RenderHint.Antialiasing | QPainter.RenderHint.SmoothPixmapTransform
            )
            painter.setClipPath(path)
            painter.drawImage(box, self.image)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._side and self.rect().contains(event.position().toPoint()):
            self.clicked.emit()


class PictureDialog(Dialog):
    """A picture as the model gets it. Attribute: `view`."""

    def __init__(self, title: str, path: Path, *, remark: str, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self._remark = plain_label(remark, wraps=True)
        self.view = PictureView()
        self.view.setAccessibleName(title)
        buttons = closing(self)
        copy = buttons.addButton("Copy", QDialogButtonBox.ButtonRole.ActionRole)
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setImage(self.view.image))
        column_of(self._remark, (self.view, 1), buttons, on=self)
        self.view.shown.connect(self._on_shown)
        self.view.show_picture(path)
        self.resize(_DIALOG)

    def _on_shown(self) -> None:
        if self.view.image.isNull():
            self._remark.setText(_GONE)


def _read(path: Path, most: int) -> QImage:
    """Read a picture, at most `most` pixels high; 0 for any. Null if it
    cannot be read."""
    reader = QImageReader(str(path))
    size = reader.size()
    if most and size.isValid() and size.height() > most:
        reader.setScaledSize(size.scaled(most * 2, most, Qt.AspectRatioMode.KeepAspectRatio))
    image = reader.read()
    return image if isinstance(image, QImage) else QImage()
