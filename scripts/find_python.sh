#!/bin/sh
# Prints a Python that the project runs on: $PYTHON if set, else the first that fits.
set -u
fits='import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))'

for python in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
    if "$python" -c "$fits" >/dev/null 2>&1; then
        command -v "$python"
        exit 0
    fi
done

cat >&2 <<TEXT
Python 3.10 to 3.13 with venv is needed; ${PYTHON:-PATH} holds none ($(python3 --version 2>&1 || true)).
Install one and try again:
  Debian, Ubuntu   sudo apt-get install python3 python3-venv
  Fedora           sudo dnf install python3.12
  macOS            brew install python@3.12
  Windows          wsl --install, then as Ubuntu
or name one: make build PYTHON=/path/to/python3.12
TEXT
exit 1
