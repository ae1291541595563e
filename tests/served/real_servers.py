"""Real servers of SmolLM2 on this machine, each in a process of its own.

``python -m tests.served.real_servers SLOTS PORT`` is the process of llama.cpp: it writes its
address, and ends with its input.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from quasir.text.loading import fetched_folder, how_to_get

ROOT = Path(__file__).parents[2]


def smollm2_folder():
    """Return SmolLM2, dequantised, as transformers reads it; set-up has fetched it."""
    folder = fetched_folder("quasir/smollm2")
    assert folder is not None, how_to_get("quasir/smollm2")
    return str(folder)


@contextmanager
def llama_server(slots=2, port=0):
    """Run llama.cpp's server; yield its address and its process."""
    command = [sys.executable, "-m", "tests.served.real_servers"]
    with subprocess.Popen(
        [*command, str(slots), str(port)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            address = next(line for line in process.stdout if line.startswith("http"))
            yield address.strip(), process
        finally:
            process.kill()


@contextmanager
def vllm_server(python, *options):
    """Run vLLM by the interpreter of its environment; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    how = ["--dtype", "float32", "--enforce-eager", "--max-model-len", "512"]
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", smollm2_folder()]
    where = ["--served-model-name", "smollm2", "--host", "127.0.0.1", "--port", str(port)]
    environment = os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        [*command, *where, *how, *options],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            while process.poll() is None and not _answers(f"{address}/health"):
                time.sleep(1)
            assert process.poll() is None, "vLLM ended before it answered"
            yield address
        finally:
            process.terminate()


def _answers(url):
    try:
        return urllib.request.urlopen(url, timeout=5).status == 200
    except OSError:
        return False


def main(slots=4, port=8080):
    """Serve SmolLM2 until the input ends."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(smollm2_folder()).glob("*.gguf")))
    parameters.n_parallel, parameters.n_ctx, parameters.port = slots, 512 * slots, port
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
