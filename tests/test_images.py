"""Image sets in their published formats, on tiny files; grey and PNG."""

import gzip
import io
import pickle
import shutil

import matplotlib.image
import numpy as np
import pytest
from PIL import Image

from annotated_ssm import datasets, images


@pytest.fixture
def fashion(tmp_path, monkeypatch):
    """A set of seven images at a mirror and nowhere else."""
    rng = np.random.default_rng(0)
    arrays = {"train_images": rng.integers(0, 256, (5, 28, 28), dtype=np.uint8),
              "train_labels": np.arange(5, dtype=np.uint8),
              "test_images": rng.integers(0, 256, (2, 28, 28), dtype=np.uint8),
              "test_labels": np.array([9, 0], np.uint8)}
    mirror, files = tmp_path / "mirror", {}
    mirror.mkdir()
    for key, file in images.FASHION_FILES.items():
        content = datasets.write_idx(arrays[key])
        packed = gzip.compress(content, mtime=0)
        (mirror / file.name).write_bytes(packed)
        files[key] = datasets.DataFile(
            file.name, datasets.sha256(packed), datasets.sha256(content))
    monkeypatch.setattr(images, "FASHION_FILES", files)
    monkeypatch.setattr(images, "FASHION_MIRRORS", (mirror.as_uri() + "/",))
    monkeypatch.setattr(images, "FASHION_SYSTEM", tmp_path / "system")
    return arrays, mirror


def same(got, arrays):
    return got.keys() == arrays.keys() and all(
        np.array_equal(got[key], arrays[key]) for key in arrays)


@pytest.mark.parametrize("place", ["cache", "cache/fashion-mnist", "system"])
def test_fashion_is_found_in_three_places(fashion, tmp_path, place):
    arrays, mirror = fashion
    (tmp_path / place).mkdir(parents=True)
    for file in mirror.iterdir():   # packed anew, as Debian does
        content = gzip.compress(gzip.decompress(file.read_bytes()), 1)
        (tmp_path / place / file.name).write_bytes(content)
    assert same(images.load_fashion_mnist(tmp_path / "cache", False), arrays)


def test_fashion_is_fetched_once(fashion, tmp_path):
    arrays, mirror = fashion
    assert same(images.load_fashion_mnist(tmp_path / "cache"), arrays)
    shutil.rmtree(mirror)
    assert same(images.load_fashion_mnist(tmp_path / "cache"), arrays)
    assert len(list((tmp_path / "cache" / "fashion-mnist").iterdir())) == 4


def test_fashion_knows_two_digests_of_each_file():
    files = images.FASHION_FILES.values()
    digests = [d for file in files for d in (file.sha256, file.content)]
    assert len(set(digests)) == 8 and all(len(d) == 64 for d in digests)
    assert len(images.FASHION_CLASSES) == len(images.CIFAR_CLASSES) == 10


def batches(rng, n=3):
    """{name: (images, labels)} of CIFAR-10's six batches."""
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    return {name: (rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8),
                   rng.integers(0, 10, n).tolist()) for name in names}


def write_batches(folder, made, protocol=2):
    folder.mkdir(parents=True)
    for name, (pictures, labels) in made.items():
        rows = np.concatenate([pictures[..., c].reshape(len(labels), 1024)
                               for c in range(3)], axis=1)
        (folder / name).write_bytes(pickle.dumps(
            {"batch_label": name, "data": rows, "labels": labels,
             "filenames": [f"{i}.png" for i in range(len(labels))]}, protocol))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": []}, 2))


@pytest.mark.parametrize("kind", ["folder", "gztar", "zip"])
def test_cifar(tmp_path, kind):
    made = batches(np.random.default_rng(1))
    write_batches(tmp_path / "cifar-10-batches-py", made)
    path = tmp_path / "cifar-10-batches-py"
    if kind != "folder":
        path = shutil.make_archive(str(tmp_path / "packed"), kind, tmp_path,
                                   "cifar-10-batches-py")
    got = images.load_cifar10(path, download=False)
    assert got["train_images"].shape == (15, 32, 32, 3)
    for i, name in enumerate(made):
        part = slice(3 * i, 3 * i + 3) if i < 5 else slice(None)
        side = "train" if i < 5 else "test"
        assert np.array_equal(got[f"{side}_images"][part], made[name][0])
        assert got[f"{side}_labels"][part].tolist() == made[name][1]
    assert all(a.dtype == np.uint8 and a.flags.c_contiguous for a in got.values())


def test_cifar_of_python_two(tmp_path):
    """Byte for byte a pickle as Python 2 writes it: protocol 2, byte strings."""
    made = batches(np.random.default_rng(2), n=1)
    write_batches(tmp_path / "cifar-10-batches-py", made)
    for path in (tmp_path / "cifar-10-batches-py").glob("*_batch*"):
        data = path.read_bytes()
        for key in (b"data", b"labels"):   # unicode → short byte string
            data = data.replace(b"X" + len(key).to_bytes(4, "little") + key,
                                b"U" + bytes([len(key)]) + key)
        path.write_bytes(data.replace(b"numpy._core", b"numpy.core"))
    got = images.load_cifar10(tmp_path, download=False)
    assert np.array_equal(got["test_images"], made["test_batch"][0])


def test_grey_is_pillows():
    rng = np.random.default_rng(3)
    colours = rng.integers(0, 256, (400, 500, 3), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(colours).convert("L"))
    assert np.array_equal(images.grey(colours), expected)
    greys = np.arange(256, dtype=np.uint8)
    assert np.array_equal(images.grey(np.stack([greys] * 3, axis=-1)), greys)


def png(image):
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "png")
    return buffer.getvalue()


def pathfinder(root, rng, size=32, level="curv_contour_length_14", counts=(3, 2)):
    """The published layout; returns images and labels in metadata's order."""
    pictures, labels = [], []
    for part, count in enumerate(counts):
        folder = root / f"pathfinder{size}" / level
        (folder / "imgs" / str(part)).mkdir(parents=True)
        (folder / "metadata").mkdir(exist_ok=True)
        lines = []
        for k in range(count):
            pictures.append(rng.integers(0, 256, (size, size), dtype=np.uint8))
            labels.append(int(rng.integers(2)))
            (folder / f"imgs/{part}/sample_{k}.png").write_bytes(png(pictures[-1]))
            lines.append(f"imgs/{part} sample_{k}.png {k} {labels[-1]} 1 14 2 1 5")
        (folder / f"metadata/{part}.npy").write_text("\n".join(lines) + "\n")
    return np.stack(pictures), labels


@pytest.mark.parametrize("kind", ["folder", "gztar", "zip"])
@pytest.mark.parametrize("size, level", [
    (32, "curv_contour_length_14"), (64, "curv_baseline")])
def test_pathfinder(tmp_path, kind, size, level):
    expected, labels = pathfinder(tmp_path / "release", np.random.default_rng(4),
                                  size, level, (3,) + 11 * (1,))
    pathfinder(tmp_path / "release", np.random.default_rng(5), 128)
    path = tmp_path / "release"
    if kind != "folder":
        path = shutil.make_archive(str(tmp_path / "packed"), kind, path)
    got = images.load_pathfinder(path, size, level)
    # Twelve folders: 10 and 11 come after 9, not after 1.
    assert np.array_equal(got.images, expected) and got.labels.tolist() == labels


def test_the_empty_image_of_the_release_is_left_out(tmp_path):
    expected, labels = pathfinder(tmp_path, np.random.default_rng(6), 32,
                                  "curv_baseline", (2,))
    level = tmp_path / "pathfinder32" / "curv_baseline"
    (level / "imgs/0/sample_172.png").write_bytes(b"")
    with open(level / "metadata/0.npy", "a") as file:
        file.write("imgs/0 sample_172.png 172 1 1 14 2 1 5\n")
    got = images.load_pathfinder(tmp_path, 32, "curv_baseline")
    assert np.array_equal(got.images, expected) and got.labels.tolist() == labels


def test_levels_survive_matplotlib():
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    read = matplotlib.image.imread(io.BytesIO(png(levels)), format="png")
    assert np.array_equal(images._read_png(png(levels), "x"), levels)
    assert read.max() == 1
