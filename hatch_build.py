"""Fill pyproject's dynamic metadata from settings.ini, the one source of it."""

from configparser import ConfigParser
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

LICENSES = {"apache2": "Apache-2.0", "mit": "MIT", "bsd3": "BSD-3-Clause"}


def _minor_versions(first, last):
    low, high = (int(v.split(".")[1]) for v in (first, last))
    return [f"Programming Language :: Python :: 3.{m}" for m in range(low, high + 1)]


class SettingsIniHook(MetadataHookInterface):
    PLUGIN_NAME = "custom"

    def update(self, metadata):
        parser = ConfigParser(delimiters=["="])
        parser.read(Path(self.root) / "settings.ini", encoding="utf-8")
        c = parser["DEFAULT"]
        if metadata["name"].replace("-", "_") != c["lib_name"]:
            raise ValueError(
                f"pyproject.toml names the project {metadata['name']!r}, "
                f"settings.ini names it {c['lib_name']!r}: they must agree")
        extras = {key.removesuffix("_requirements"): value.split()
                  for key, value in c.items() if key.endswith("_requirements")}
        metadata.update({
            "version": c["version"],
            "description": c["description"],
            "readme": "README.md",
            "license": LICENSES[c["license"]],
            "authors": [{"name": c["author"], "email": c["author_email"]}],
            "keywords": c["keywords"].split(),
            "requires-python": ">=" + c["min_python"],
            "dependencies": c["requirements"].split(),
            "optional-dependencies": extras,
            "urls": {"Documentation": c["doc_host"] + c["doc_baseurl"],
                     "Source": c["git_url"]},
            "scripts": dict([c["console_scripts"].split("=")]),
            "entry-points": {"nbdev": {c["lib_path"]: f"{c['lib_path']}._modidx:d"}},
            "classifiers": [
                f"Intended Audience :: {c['audience']}",
                "Topic :: Scientific/Engineering :: Artificial Intelligence",
                *_minor_versions(c["min_python"], c["max_python"]),
            ],
        })
