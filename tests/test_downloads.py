"""Downloads that break off and go on, against servers of every temper."""

import http.server
import os
import subprocess
import sys
import threading
import time

import pytest
from local_server import serving

from annotated_ssm import datasets

BODY = bytes(range(256)) * 400  # 102,400 bytes
DIGEST = datasets.sha256(BODY)
LEFT = f"file.{DIGEST[:8]}.part"   # what an orderly interruption leaves


class Handler(http.server.BaseHTTPRequestHandler):
    """/KIND/…: what the server is like; each request is noted with its range.

    ranges: knows them. plain: doesn't. cut: knows them, and breaks off after
    30,000 bytes of each answer. plaincut: the same without ranges. shifted:
    sends a later piece than it was asked for. stall: stops after 70,000.
    """

    def do_GET(self):
        kind, wanted = self.path.split("/")[1], self.headers["Range"]
        self.server.asked.append((kind, wanted))
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        if wanted and kind in ("ranges", "cut", "shifted"):
            if start >= len(BODY):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(BODY)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
            start += 5 * (kind == "shifted")
            self.send_response(206)
            self.send_header("Content-Range",
                             f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        else:
            start = 0
            self.send_response(200)
        rest = BODY[start:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if kind == "stall":
            self.wfile.write(rest[:70_000])
            self.wfile.flush()
            return self.server.closing.wait(60)
        sent = rest[:30_000] if kind.endswith("cut") else rest
        self.server.sent += len(sent)
        self.wfile.write(sent)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(Handler) as s:
        yield s


def fetch(server, directory, *kinds):
    return datasets.fetch([f"{server.url}{kind}/x" for kind in kinds], DIGEST,
                          "file", directory)


def only_the_file(directory):
    assert [p.name for p in directory.iterdir()] == ["file"]
    assert (directory / "file").read_bytes() == BODY


def test_continues_where_it_stopped(server, tmp_path):
    with pytest.raises(ConnectionError):
        fetch(server, tmp_path, "cut")
    assert [p.name for p in tmp_path.iterdir()] == [LEFT]
    assert (tmp_path / LEFT).read_bytes() == BODY[:30_000]
    fetch(server, tmp_path, "ranges")
    only_the_file(tmp_path)
    assert server.asked == [("cut", None), ("ranges", "bytes=30000-")]
    assert server.sent == len(BODY)   # not a byte twice


def test_every_call_brings_it_further(server, tmp_path):
    for _ in range(3):
        with pytest.raises(ConnectionError):
            fetch(server, tmp_path, "cut")
    fetch(server, tmp_path, "cut")
    only_the_file(tmp_path)
    assert [wanted for _, wanted in server.asked] == [
        None, "bytes=30000-", "bytes=60000-", "bytes=90000-"]


def test_another_address_continues(server, tmp_path):
    fetch(server, tmp_path, "cut", "absent-host", "ranges")
    only_the_file(tmp_path)
    assert server.asked[0] == ("cut", None)
    assert server.asked[1][1] == "bytes=30000-"


def test_a_server_that_ignores_ranges_sends_everything(server, tmp_path):
    (tmp_path / LEFT).write_bytes(BODY[:30_000])
    fetch(server, tmp_path, "plain")
    only_the_file(tmp_path)
    assert server.asked == [("plain", "bytes=30000-")]


def test_an_address_without_ranges_at_all(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(BODY)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / LEFT).write_bytes(b"something")
    datasets.fetch([source.as_uri()], DIGEST, "file", tmp_path / "cache")
    only_the_file(tmp_path / "cache")


def test_a_rest_of_another_file_is_fetched_whole(server, tmp_path):
    (tmp_path / LEFT).write_bytes(b"x" * 1000)
    fetch(server, tmp_path, "ranges")
    only_the_file(tmp_path)
    assert server.asked == [("ranges", "bytes=1000-"), ("ranges", None)]


@pytest.mark.parametrize("kind", ["ranges", "plain"])
@pytest.mark.parametrize("more", [0, 1, 5000])
def test_a_rest_that_is_too_long_is_fetched_whole(server, tmp_path, kind, more):
    (tmp_path / LEFT).write_bytes(b"x" * (len(BODY) + more))
    fetch(server, tmp_path, kind)
    only_the_file(tmp_path)
    wanted = f"bytes={len(BODY) + more}-"   # who knows ranges refuses this one
    assert server.asked == [(kind, wanted), ("ranges", None)][:1 + (kind == "ranges")]


def test_a_complete_rest_is_found_complete(server, tmp_path):
    (tmp_path / LEFT).write_bytes(BODY)
    fetch(server, tmp_path, "plain")
    only_the_file(tmp_path)


def test_another_piece_than_was_asked_for(server, tmp_path):
    (tmp_path / LEFT).write_bytes(BODY[:1000])
    with pytest.raises(ConnectionError, match="1000 bytes are here, and it sent "
                                              "bytes 1005-"):
        fetch(server, tmp_path, "shifted")
    assert (tmp_path / LEFT).read_bytes() == BODY[:1000]
    fetch(server, tmp_path, "shifted", "ranges")
    only_the_file(tmp_path)


def test_the_rest_of_another_digest_is_left_alone(server, tmp_path):
    other = tmp_path / "file.00000000.part"
    other.write_bytes(b"of another version")
    fetch(server, tmp_path, "ranges")
    assert server.asked == [("ranges", None)]
    assert other.read_bytes() == b"of another version"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_any_interruption_keeps_what_came(server, tmp_path, monkeypatch, error):
    def interrupted(url, part):
        part.write_bytes(BODY[:500])
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(datasets, "_download", interrupted)
        with pytest.raises(error):
            fetch(server, tmp_path, "ranges")
    assert [p.name for p in tmp_path.iterdir()] == [LEFT]
    fetch(server, tmp_path, "ranges")
    only_the_file(tmp_path)
    assert server.asked == [("ranges", "bytes=500-")]


def killed(server, directory):
    """A process that was killed in the middle; the file that it has left."""
    code = ("from annotated_ssm import datasets\n"
            f"datasets.fetch([{server.url + 'stall/x'!r}], {DIGEST!r}, 'file', "
            f"{str(directory)!r})")
    process = subprocess.Popen([sys.executable, "-c", code])
    end = time.monotonic() + 60
    while not any(p.stat().st_size >= 65_536 for p in directory.iterdir()):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    process.kill()
    process.wait()
    left, = directory.iterdir()
    return left


def test_an_orphan_is_adopted_once_it_is_surely_one(server, tmp_path):
    left = killed(server, tmp_path)
    size, now = left.stat().st_size, time.time()
    os.utime(left, (now, now))
    with pytest.raises(ConnectionError):   # fresh: it may still be growing
        fetch(server, tmp_path, "plaincut")
    assert server.asked[-1] == ("plaincut", None) and left.exists()
    (tmp_path / LEFT).unlink()
    old = now - datasets.ORPHANED - 1
    os.utime(left, (old, old))
    fetch(server, tmp_path, "ranges")
    assert server.asked[-1] == ("ranges", f"bytes={size}-")
    only_the_file(tmp_path)


def test_only_one_of_many_gets_the_rest(server, tmp_path):
    (tmp_path / LEFT).write_bytes(BODY[:1000])
    path = tmp_path / "file"
    claims, barrier = [], threading.Barrier(8)

    def claim():
        barrier.wait()
        claims.append(datasets._claim(path, DIGEST[:8]))

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(claims)) == 8
    assert sorted(p.stat().st_size for p in claims) == [0] * 7 + [1000]


def test_a_wrong_file_leaves_nothing(server, tmp_path):
    expected = datasets.sha256(b"something else")
    with pytest.raises(ValueError, match=DIGEST):
        datasets.fetch([server.url + "ranges/x"], expected, "file", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_rest_and_a_wrong_file_leave_nothing(server, tmp_path):
    expected = datasets.sha256(b"something else")
    (tmp_path / f"file.{expected[:8]}.part").write_bytes(b"x" * 1000)
    with pytest.raises(ValueError, match=DIGEST):
        datasets.fetch([server.url + "ranges/x"], expected, "file", tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert server.asked == [("ranges", "bytes=1000-"), ("ranges", None)]
