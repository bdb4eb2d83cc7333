"""A server on this machine, for what is fetched in tests."""

import contextlib
import http.server
import threading


@contextlib.contextmanager
def serving(handler):
    """A running server; handlers find `asked`, `sent` and `closing` on it."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as s:
        s.asked, s.sent, s.closing, s.daemon_threads = [], 0, threading.Event(), True
        s.url = f"http://127.0.0.1:{s.server_port}/"
        thread = threading.Thread(target=s.serve_forever, daemon=True)
        thread.start()
        yield s
        s.closing.set()
        s.shutdown()
        thread.join()
