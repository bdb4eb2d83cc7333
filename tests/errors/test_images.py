"""What the readers of images say when something is wrong."""

import io
import pickle

import numpy as np
import pytest
from PIL import Image

from annotated_ssm import images

NOISE = np.random.default_rng(0).integers(0, 256, (32, 32), dtype=np.uint8)
GOOD = {"data": np.zeros((2, 3072), np.uint8), "labels": [1, 2]}


def write(folder, **batches):
    folder.mkdir(exist_ok=True)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        batch = batches.get(name, GOOD)
        if batch is not None:
            (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    return folder


@pytest.mark.parametrize("batch, message", [
    (None, "lacks data_batch_3: it is not CIFAR-10's Python version"),
    ([1, 2], "data_batch_3 lacks \"data\" or \"labels\""),
    ({"data": GOOD["data"]}, "data_batch_3 lacks \"data\" or \"labels\""),
    ({"data": np.zeros((2, 3071), np.uint8), "labels": [1, 2]},
     r"data_batch_3 has uint8 data of shape \(2, 3071\) for 2 labels"),
    ({"data": np.zeros((2, 3072)), "labels": [1, 2]},
     r"data_batch_3 has float64 data of shape \(2, 3072\)"),
    ({"data": GOOD["data"], "labels": [1]}, "for 1 labels: uint8")])
def test_cifar(tmp_path, batch, message):
    path = write(tmp_path / "cifar-10-batches-py", data_batch_3=batch)
    with pytest.raises(ValueError, match=message):
        images.load_cifar10(path)


def test_cifar_runs_no_code(tmp_path):
    path = write(tmp_path / "cifar-10-batches-py", test_batch={"data": print})
    with pytest.raises(ValueError, match="the pickle asks for .*print"):
        images.load_cifar10(path)


def test_fashion_without_download(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "FASHION_SYSTEM", tmp_path / "system")
    with pytest.raises(FileNotFoundError) as caught:
        images.load_fashion_mnist(tmp_path, download=False)
    message = str(caught.value)
    for place in (tmp_path, tmp_path / "fashion-mnist", tmp_path / "system"):
        assert str(place) in message
    assert message.startswith("train-images-idx3-ubyte.gz is not in")
    assert "dataset-fashion-mnist" in message


@pytest.mark.parametrize("size, level", [
    (28, "curv_baseline"), (32, "hard"), (128, "curv_contour_length_9 ")])
def test_pathfinder_sizes_and_levels(tmp_path, size, level):
    with pytest.raises(ValueError, match=f"size is {size}, level is '{level}': need"):
        images.load_pathfinder(tmp_path, size, level)


def png(image):
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "png")
    return buffer.getvalue()


@pytest.mark.parametrize("data, message", [
    (b"", "lacks curv_baseline/imgs/0/sample_0.png, or it is empty"),
    (None, "lacks curv_baseline/imgs/0/sample_0.png, or it is empty"),
    (b"no picture", "sample_0.png can't be read as a PNG"),
    (png(NOISE)[:700], "sample_0.png can't be read as a PNG"),
    (png(np.zeros((4, 4, 3), np.uint8)), r"sample_0.png has shape \(4, 4, 3\)")])
def test_pathfinder_images(tmp_path, data, message):
    level = tmp_path / "pathfinder32" / "curv_baseline"
    (level / "imgs/0").mkdir(parents=True)
    (level / "metadata").mkdir()
    (level / "metadata/0.npy").write_text("imgs/0 sample_0.png 0 1 1 2 3\n")
    if data is not None:
        (level / "imgs/0/sample_0.png").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        images.load_pathfinder(tmp_path, 32, "curv_baseline")


@pytest.mark.parametrize("line", ["imgs/0 sample_0.png 0", "imgs/0 a.png 0 yes 1"])
def test_pathfinder_metadata(tmp_path, line):
    level = tmp_path / "pathfinder32" / "curv_baseline"
    (level / "metadata").mkdir(parents=True)
    (level / "metadata/0.npy").write_text(line + "\n")
    with pytest.raises(ValueError, match=f"metadata has the line '{line}': need"):
        images.load_pathfinder(tmp_path, 32, "curv_baseline")


def test_pathfinder_without_metadata(tmp_path):
    (tmp_path / "pathfinder64" / "curv_baseline").mkdir(parents=True)
    with pytest.raises(ValueError, match="has no curv_baseline/metadata"):
        images.load_pathfinder(tmp_path, 64, "curv_baseline")
