#!/bin/sh
# The browser tests run in Chromium: see that there is one, or install it.
set -eu
for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
    if [ -n "$name" ] && command -v "$name" >/dev/null; then exit 0; fi
done
as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if command -v apt-get >/dev/null && $as_root true 2>/dev/null; then
    echo "installing Chromium with apt-get, for the browser tests (some minutes, once)"
    $as_root apt-get update -q
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends chromium
    exit 0
fi
echo "the browser tests need Chromium: sudo apt-get install chromium" \
    "(or name one: make test CHROMIUM=/path/to/chromium)" >&2
exit 1
