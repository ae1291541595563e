import json

import numpy as np

import quasir as qr
from tests.cli.helpers import LETTERS, quasir


def test_the_commands_stream_on_request(tmp_path):
    (tmp_path / "letters.yaml").write_text(LETTERS)
    quasir("draw", tmp_path / "letters.yaml", "--out", tmp_path / "run")
    plain = json.loads(quasir("tradeoff", tmp_path / "run", "--json")[0])
    out, err = quasir("tradeoff", tmp_path / "run", "--stream", "--json")
    told = json.loads(out)
    assert told["streamed"]
    assert not plain["streamed"]
    assert "betas are whole powers of e^" in err
    assert (tmp_path / "run" / "draws" / "shard-00000.summary").exists()
    whole = qr.tradeoff(qr.Draws.load(tmp_path / "run"), log_betas=told["columns"]["log_beta"])
    for name in ("acceptance_rate", "tvd", "kl", "moment:vowel"):
        np.testing.assert_allclose(
            told["columns"][name], whole.columns()[name], rtol=1e-9, atol=1e-13, err_msg=name
        )
    one, _ = quasir("sample", tmp_path / "run", "-n", 200, "--beta", 0.5)
    two, _ = quasir("sample", tmp_path / "run", "-n", 200, "--beta", 0.5, "--stream")
    assert len(two.splitlines()) == 200
    # Beta is the nearest edge, a millionth off where ratios are few: the same draws.
    drawn = [[json.loads(line)["draw"] for line in lines.splitlines()] for lines in (one, two)]
    assert drawn[0] == drawn[1]
    more, err = quasir("sample", tmp_path / "run", "-n", 4200, "--beta", 0.5, "--stream")
    assert len(more.splitlines()) == 4200
    assert "drawing on" in err
