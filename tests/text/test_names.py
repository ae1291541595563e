"""Names of models: a mistyped one ends at once, and a hub that does not answer is asked once."""

import socket
import subprocess
import sys

import pytest

import quasir as qr
from quasir.features.similarity import SentenceModel
from tests.cli.helpers import inside

pytest.importorskip("torch")


@pytest.mark.parametrize(
    "name", ["biografies", "gpt2", "quasir/biografies", "./gone", "a/b/c", "/gone", "~/x", "x/"]
)
@pytest.mark.parametrize("where", ["base", "proposal"])
def test_a_name_that_can_be_no_hub_id(tmp_path, monkeypatch, name, where):
    def asked(*given, **more):
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("quasir.text.loading.why_silent", asked)
    base = "base: quasir/biographies\nproposal:" if where == "proposal" else "base:"
    (tmp_path / "r.yaml").write_text(f"{base} {name!r}\n")
    code, _, err = inside("draw", tmp_path / "r.yaml", "--out", tmp_path / "run")
    assert code == 2
    assert f"there is no model {name!r}" in err
    assert "`quasir models` lists" in err
    assert "OWNER/NAME" in err


def test_offline_the_hub_is_not_asked(tmp_path):
    with pytest.raises(qr.errors.InputError, match=r"could not be loaded.*HF_HUB_OFFLINE is set"):
        qr.text.CausalLM("nobody/nothing")
    with pytest.raises(qr.errors.InputError, match=r"could not be loaded.*HF_HUB_OFFLINE is set"):
        SentenceModel("nobody/nothing")(["a"])
    with pytest.raises(qr.errors.InputError, match="there is no model 'nothing'"):
        SentenceModel("nothing")(["a"])


ASKED = """\
import sys
import huggingface_hub.utils._http as http
import quasir as qr
try:
    qr.text.CausalLM("nobody/nothing")
except qr.errors.InputError as error:
    print(error)
"""


def test_a_hub_that_does_not_answer_is_asked_once(tmp_path):
    """A server that closes every connection counts them: one, where there were six and more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        port = server.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-c", ASKED],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                "PATH": "",
                "HF_ENDPOINT": f"http://127.0.0.1:{port}",
                "HF_HOME": str(tmp_path),
                "HF_HUB_OFFLINE": "0",
                "PYTHONPATH": ":".join(sys.path),
            },
        )
        asked = []
        while process.poll() is None:
            try:
                connection, _ = server.accept()
                with connection:
                    asked.append(connection.recv(200).split(b"\r")[0])
            except TimeoutError:
                pass
    out, err = process.communicate()
    assert "could not be loaded" in out, err
    assert "it does not answer" in out
    # The hub's client asks for a list of its own, too.
    of_model = [line for line in asked if b"nobody" in line]
    assert of_model == [b"GET /api/models/nobody/nothing HTTP/1.1"]


def test_the_guard_of_the_tests_fails_loudly():
    for look in (
        lambda: socket.create_connection(("192.0.2.1", 80), timeout=0.01),
        lambda: socket.getaddrinfo("huggingface.co", 443),
    ):
        with pytest.raises(pytest.fail.Exception, match="tests ask no other machine"):
            look()
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
