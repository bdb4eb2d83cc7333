"""What an interrupted download says."""

import http.server
import threading

import pytest

from annotated_ssm import datasets

BODY = bytes(range(256)) * 100


class Short(http.server.BaseHTTPRequestHandler):
    """Announces everything, and sends at most 1,234 bytes."""

    def do_GET(self):
        wanted = self.headers["Range"]
        start = int(wanted[6:-1]) if wanted else 0
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/*")
        self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        self.wfile.write(BODY[start:start + 1234])

    def log_message(self, *args):
        pass


def test_it_says_how_far_it_came_and_what_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Short) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/x"
        for came in (1234, 2468):
            with pytest.raises(ConnectionError) as caught:
                datasets.fetch([url], datasets.sha256(BODY), "name.gz", tmp_path)
            assert str(caught.value).splitlines() == [
                "name.gz could not be fetched:",
                f"  {url}: ended after {came} of 25600 bytes",
                f"Check the connection, or put the file at {tmp_path / 'name.gz'} "
                f"yourself. {came:,} bytes are kept: the next call continues there."]
        server.shutdown()
        thread.join()


def test_nothing_kept_nothing_said(tmp_path):
    with pytest.raises(ConnectionError) as caught:
        datasets.fetch([(tmp_path / "gone").as_uri()], 64 * "0", "x", tmp_path)
    assert str(caught.value).endswith(f"put the file at {tmp_path / 'x'} yourself.")
