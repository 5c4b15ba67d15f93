"""Windows for the proofs of promises, as for the app's own tests."""

from tests.app.conftest import (
    begin as begin,
)
from tests.app.conftest import (
    clipboard_outlasts_python as clipboard_outlasts_python,
)
from tests.app.conftest import (
    formats as formats,
)
from tests.app.conftest import (
    modules_are_not_looked_through as modules_are_not_looked_through,
)
from tests.app.conftest import (
    only_this_thread_collects as only_this_thread_collects,
)
from tests.app.conftest import (
    open_window as open_window,
)
from tests.app.conftest import (
    open_windows as open_windows,
)
from tests.app.conftest import (
    plain_application as plain_application,
)
from tests.app.conftest import (
    qapp_cls as qapp_cls,
)
from tests.app.conftest import (
    qtbot as qtbot,
)
from tests.app.conftest import (
    show as show,
)
from tests.app.conftest import (
    tiny_folder as tiny_folder,
)
from tests.app.conftest import (
    until as until,
)
from tests.app.server.conftest import serve as serve
