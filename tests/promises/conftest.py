"""Windows for the proofs of promises, as for the app's own tests."""

from tests.app.conftest import (  # noqa: F401
    begin,
    clipboard_outlasts_python,
    formats,
    modules_are_not_looked_through,
    only_this_thread_collects,
    open_window,
    open_windows,
    plain_application,
    qapp_cls,
    qtbot,
    show,
    tiny_folder,
    until,
)
from tests.app.server.conftest import serve  # noqa: F401
