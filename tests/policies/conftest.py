"""The embedded model, loaded once: in process, and as a real llama.cpp server on loopback."""

import os

import pytest

from livery.policies.engine import Engine
from livery.policies.llamacpp import LlamaCppOptions, LlamaCppPolicy, weights_version
from livery.policies.model_file import ModelFileError, ensure_model


@pytest.fixture(scope="session")
def model_file():
    try:
        return ensure_model(progress=False)
    except ModelFileError as error:
        if os.environ.get("LIVERY_REQUIRE_MODEL"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def weights(model_file):
    return weights_version(model_file)


@pytest.fixture(scope="session")
def engine(model_file):
    engine = Engine(model_file, threads=1, slots=1, context=2048)
    yield engine
    engine.close()


@pytest.fixture
def embedded(engine, weights):
    """A policy over the shared engine; its own workers end with the test."""
    policy = LlamaCppPolicy(engine, LlamaCppOptions(threads=1), uri="llamacpp:", weights=weights)
    yield policy
    policy.stop()


@pytest.fixture(scope="session")
def llama_server(model_file):
    """Base URL of a llama.cpp server, as a user would start one."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model_file)
    params.model_alias = {"smollm2"}
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib = 0
    params.warmup = False
    params.verbosity = -1
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server
