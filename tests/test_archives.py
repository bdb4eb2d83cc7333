"""Members of folders, zips and tars, and where a data set is looked for."""

import shutil
import tarfile

import pytest

from annotated_ssm import archives

FILES = {"part/1.txt": b"one", "part/22.txt": b"", "part/deep/3.txt": b"three",
         "other/4.bin": bytes(range(256))}
FORMATS = ["folder", "zip", "tar", "gztar", "bztar", "xztar"]


def make(where, kind, dotted=False):
    for name, data in FILES.items():
        (where / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (where / "set" / name).write_bytes(data)
    if kind == "folder":
        return where / "set"
    if dotted:   # names as "./part/1.txt"
        return shutil.make_archive(str(where / "packed"), kind, where / "set")
    return shutil.make_archive(str(where / "packed"), kind, where, "set")


@pytest.mark.parametrize("dotted", [False, True])
@pytest.mark.parametrize("kind", FORMATS)
def test_all_wrappings_hold_the_same(tmp_path, kind, dotted):
    path = make(tmp_path, kind, dotted)
    found = {match[1]: read() for match, read in
             archives.members(path, r"(part/.*\.txt|other/\d\.bin)")}
    assert found == FILES


@pytest.mark.parametrize("kind", FORMATS)
def test_a_pattern_is_the_end_of_a_name_from_a_part_on(tmp_path, kind):
    path = make(tmp_path, kind)

    def names(pattern):
        return sorted(m.string.rsplit("set/", 1)[-1] for m, _ in
                      archives.members(path, pattern))

    assert names(r"\d\.txt") == ["part/1.txt", "part/deep/3.txt"]
    assert names(r"2\.txt") == []
    assert names(r"1\.tx") == []
    assert names(r"deep/3\.txt") == ["part/deep/3.txt"]
    assert names(r"part") == []   # folders aren't members


def test_what_is_not_asked_for_is_not_read(tmp_path, monkeypatch):
    path = make(tmp_path, "gztar")
    opened = []
    extract = tarfile.TarFile.extractfile
    monkeypatch.setattr(tarfile.TarFile, "extractfile", lambda self, member: (
        opened.append(member.name), extract(self, member))[1])
    pairs = [(m, read() if m.string.endswith("/1.txt") else None)
             for m, read in archives.members(path, r"\d+\.txt")]
    assert len(pairs) == 3 and opened == ["set/part/1.txt"]


def test_names_that_lead_outside_write_nothing(tmp_path):
    path = tmp_path / "evil.tar"
    (tmp_path / "x").write_bytes(b"x")
    with tarfile.open(path, "w") as archive:
        archive.add(tmp_path / "x", "../../outside.txt")
        archive.add(tmp_path / "x", "/absolute.txt")
    before = sorted(tmp_path.rglob("*"))
    assert len([read() for _, read in archives.members(path, r"\w+\.txt")]) == 2
    assert sorted(tmp_path.rglob("*")) == before


SOURCE = archives.Source("The set", ("set.zip", "set"), "part", "somewhere")


def test_places_are_tried_in_order(tmp_path, monkeypatch):
    make(tmp_path, "folder")
    assert archives.find(SOURCE, tmp_path) == tmp_path / "set"
    assert archives.find(SOURCE, tmp_path / "set") == tmp_path / "set"
    (tmp_path / "set.zip").write_bytes(b"")
    assert archives.find(SOURCE, tmp_path) == tmp_path / "set.zip"
    assert archives.find(SOURCE, tmp_path / "set.zip") == tmp_path / "set.zip"
    monkeypatch.setenv("ANNOTATED_SSM_DATA", str(tmp_path))
    assert archives.find(SOURCE) == tmp_path / "set.zip"


def test_what_is_missing_is_fetched_only_if_it_may(tmp_path):
    from annotated_ssm import datasets
    data = b"the published file"
    (tmp_path / "origin").write_bytes(data)
    source = archives.Source("S", ("s.zip",), "", "page",
                             ((tmp_path / "origin").as_uri(),), datasets.sha256(data))
    cache = tmp_path / "cache"
    with pytest.raises(FileNotFoundError):
        archives.find(source, cache, download=False)
    assert not cache.exists()
    assert archives.find(source, cache).read_bytes() == data
    assert archives.find(source, cache, download=False) == cache / "s.zip"


def test_a_file_brought_by_hand_is_not_compared(tmp_path):
    source = archives.Source("S", ("s.zip",), "", "page", ("http://x.invalid/",),
                             64 * "0")
    (tmp_path / "s.zip").write_bytes(b"another wrapping")
    assert archives.find(source, tmp_path) == tmp_path / "s.zip"
