"""Servers on loopback, for tests."""

import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer


@contextmanager
def serving_on_loopback(handler):
    """The address of a server that answers with `handler`; it ends with all of its threads."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = False  # so that closing the server waits for them
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
