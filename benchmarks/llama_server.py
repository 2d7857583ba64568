"""A llama.cpp server on loopback with the embedded model, to measure the endpoint policy against a real server.

    python benchmarks/llama_server.py --port 8790
    livery replay CHAT --policy 'openai:http://127.0.0.1:8790/v1?model=smollm2&actions=text&grammar=llamacpp'

Prints its address and serves until Ctrl-C.
"""

from __future__ import annotations

import argparse
import signal

import xllamacpp

from livery.policies.model_file import ensure_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8790)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int, default=4096)
    options = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = str(ensure_model())
    params.model_alias = {"smollm2"}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.n_ctx = options.context
    params.n_parallel = 1
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.verbosity = -1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    del server


if __name__ == "__main__":
    main()
