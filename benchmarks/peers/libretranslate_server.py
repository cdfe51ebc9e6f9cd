"""LibreTranslate's own server with one package of `nmt export argos`, greedy search, and no sentence splitter.

    python benchmarks/peers/libretranslate_server.py PACKAGE

LibreTranslate downloads its sentence splitter; here each text counts as one sentence, which saves it work. All else
is as LibreTranslate sets it. Prints its address on standard error, as `nmt serve` does.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time


def run(package: str) -> None:
    """Serve until SIGTERM."""
    with tempfile.TemporaryDirectory() as home, socket.socket() as probe:
        os.chdir(home)  # where LibreTranslate keeps its files
        os.environ |= {"HOME": home, "ARGOS_PACKAGES_DIR": f"{home}/packages", "ARGOS_BEAM_SIZE": "1"}
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        _install(package)
        threading.Thread(target=_announce, args=[port], daemon=True).start()
        _serve(port)


def _install(package: str) -> None:
    from argostranslate import package as packages
    from argostranslate import sbd

    packages.install_from_path(package)
    sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]


def _announce(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
            continue
        sys.stderr.write(f"serving at http://127.0.0.1:{port}; libretranslate\n")
        sys.stderr.flush()
        return


def _serve(port: int) -> None:
    from libretranslate import init, main

    init.boot = lambda *given: None  # looks for models to download
    sys.argv[1:] = ["--port", str(port), "--disable-web-ui", "--disable-files-translation"]
    main()


if __name__ == "__main__":
    run(sys.argv[1])
