"""Sampling on a vLLM server, against a stub of its documented protocol: what is asked, what is read, and a whole run in
which weights go to the server. The stub samples from a model of its own; what replaces NCCL hands it the tensors."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("trl", reason="needs the training extra: trl is not installed")
pytest.importorskip("requests", reason="TRL's client for vLLM needs requests")

import rl_toy
import torch
from policies_tiny_model import chat_tokenizer, tiny_llama
from trl.generation import vllm_client, vllm_generation

from livery.errors import InputError, PolicyOverflow, PolicyTimeout, PolicyUnavailable
from livery.policies.policy import PromptMessage
from livery.training.rl_server import ServerPolicy

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of the training libraries among themselves
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def without_picture(monkeypatch):
    monkeypatch.setattr("livery.training.rl._picture", lambda *args, **more: None)


class Stub:
    """``vllm serve`` as TRL's client knows it: completions from ids, and the calls around a change of weights."""

    def __init__(self):
        self.model = tiny_llama()
        self.asked = []
        self.paths = []
        self.spoil = lambda choice: None
        self.wait = threading.Event()
        self.wait.set()
        self.lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.answer({})

            def do_POST(self):
                length = int(self.headers.get("Content-Length") or 0)
                self.answer(json.loads(self.rfile.read(length) or b"{}"))

            def answer(self, asked):
                with stub.lock:
                    stub.paths.append(self.path)
                text = json.dumps(stub.reply(self.path, asked)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.wait.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def reply(self, path, asked):
        if path == "/v1/models":
            return {"data": [{"id": "tiny"}]}
        if path == "/v1/completions":
            self.wait.wait(10)
            with self.lock:
                self.asked.append(asked)
                return {"choices": [self.choice(asked, prompt) for prompt in asked["prompt"]]}
        return {}

    def choice(self, asked, prompt):
        assert asked["return_token_ids"] and asked["return_tokens_as_token_ids"] and asked["logprobs"] == 0
        generator = torch.Generator().manual_seed(asked["seed"] % 2**62)
        ids, logprobs = [], []
        while len(ids) < asked["max_tokens"] and not (ids and ids[-1] in asked["stop_token_ids"]):
            with torch.no_grad():
                scores = self.model(torch.tensor([[*prompt, *ids]])).logits[0, -1].log_softmax(-1)
            ids.append(int(torch.multinomial(scores.exp(), 1, generator=generator)))
            logprobs.append(float(scores[ids[-1]]))
        names = [f"token_id:{i}" for i in ids]
        choice = {
            "prompt_token_ids": prompt,
            "token_ids": ids,
            "finish_reason": "stop",
            "logprobs": {
                "tokens": names,
                "token_logprobs": logprobs,
                "top_logprobs": [{name: p} for name, p in zip(names, logprobs, strict=True)],
            },
        }
        self.spoil(choice)
        return choice


@pytest.fixture
def stub(monkeypatch):
    monkeypatch.setattr(vllm_client, "is_vllm_available", lambda *a, **k: True)
    monkeypatch.setattr(vllm_generation, "is_vllm_available", lambda *a, **k: True)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Stub()
    yield made
    made.close()


@pytest.fixture
def client(stub):
    made = vllm_client.VLLMClient(base_url=stub.url)
    yield made
    made.session.close()


def policy(client, **more):
    return ServerPolicy(client, chat_tokenizer(), **{"context": 400, **more})


MESSAGES = (PromptMessage(role="system", content="Be brief."), PromptMessage(role="user", content="Price?"))


def test_a_turn_names_every_setting_of_the_sampler_and_goes_on_by_its_own_ids(stub, client):
    one = policy(client, extra={"priority": 3})

    async def both():
        first = await one.act(rl_toy.request(MESSAGES, 5))
        more = (PromptMessage(role="assistant", content=first.text), PromptMessage(role="user", content="And two?"))
        return first, await one.act(rl_toy.request((*MESSAGES, *more), 5, previous=first, previous_messages=2))

    first, second = asyncio.run(both())
    asked = stub.asked[0]
    named = {n: asked[n] for n in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "n", "priority")}
    assert named == {
        "temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1, "n": 1, "priority": 3,
    }  # fmt: skip
    assert asked["max_tokens"] == rl_toy.TURN and asked["model"] == "tiny"
    assert set(asked["stop_token_ids"]) == {0, 1, 2}
    # Another stream for each turn of a conversation.
    assert stub.asked[0]["seed"] != stub.asked[1]["seed"]
    assert asked["prompt"] == [list(first.tokens.prompt_ids)]
    before = first.tokens.prompt_ids + first.tokens.output_ids
    assert second.tokens.prompt_ids[: len(before)] == before == tuple(stub.asked[1]["prompt"][0][: len(before)])
    ids = torch.tensor([[*second.tokens.prompt_ids, *second.tokens.output_ids]])
    given = stub.model(ids).logits[0].log_softmax(-1)
    at = len(second.tokens.prompt_ids)
    wanted = [float(given[at - 1 + i, token]) for i, token in enumerate(second.tokens.output_ids)]
    assert second.tokens.logprobs == pytest.approx(wanted, abs=1e-4)
    assert second.usage.prompt == at and second.usage.output == len(wanted)


def test_a_conversation_beyond_the_context_is_the_policys_own_failure(client):
    with pytest.raises(PolicyOverflow, match="the context is 20"):
        asyncio.run(policy(client, context=20).act(rl_toy.request(MESSAGES, 5)))


def unscored(ids):
    return {"token_logprobs": [float("nan")] * len(ids), "top_logprobs": [None] * len(ids)}


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda c: c.update(token_ids=c["token_ids"][:-1]), "log-probabilities; expected one for each id"),
        (lambda c: c["logprobs"].update(unscored(c["token_ids"])), "a log-probability that is not a number"),
        (lambda c: c.pop("token_ids"), "KeyError"),
    ],
)
def test_an_answer_that_cannot_be_trained_on_is_refused(stub, client, spoil, told):
    stub.spoil = spoil
    with pytest.raises(PolicyUnavailable, match=told):
        asyncio.run(policy(client).act(rl_toy.request(MESSAGES, 5)))


def test_a_server_that_takes_too_long_is_told_from_one_that_fails(stub, client):
    stub.wait.clear()
    request = rl_toy.request(MESSAGES, 5, timeout_s=0.2)

    async def act():
        try:
            await policy(client).act(request)
        finally:
            stub.wait.set()

    with pytest.raises(PolicyTimeout, match=r"no turn within 0\.20 s"):
        asyncio.run(act())


def test_a_run_samples_on_the_server_and_its_weights_follow(stub, monkeypatch, tmp_path):
    opened = []

    def announce(self, metadata, named_params):
        self._post(f"{self.base_url}/start_weight_update", json={})
        names, dtypes, shapes = (list(field) for field in zip(*metadata, strict=True))
        info = {"names": names, "dtype_names": dtypes, "shapes": shapes}
        self._post(f"{self.base_url}/update_weights", json={"update_info": info})
        with torch.no_grad():
            for name, weight in named_params:
                stub.model.get_parameter(name).copy_(weight)
        self._post(f"{self.base_url}/finish_weight_update", json={})

    monkeypatch.setattr(vllm_client.VLLMClient, "init_communicator", lambda self, device: opened.append(str(device)))
    monkeypatch.setattr(vllm_client.VLLMClient, "update_named_params", announce)
    stub.model = tiny_llama(seed=7)  # not the policy's weights, until they are sent
    result, toy = rl_toy.run(tmp_path, steps=4, group=2, accumulate=1, server=stub.url, max_tokens=400)
    assert opened == ["cpu"]
    assert result.generations == 2 and len(stub.asked) == 2 * 4 * 2
    assert stub.paths.count("/update_weights") == 2 == stub.paths.count("/reset_prefix_cache")
    # Before any update of a generation the trainer gives the server's ids the server's probabilities: with weights that
    # had stayed behind it would not.
    assert result.difference < 1e-5
    assert toy.samples[0][0].ids != toy.samples[1][0].ids
    trained = tiny_llama().state_dict()
    assert not torch.equal(stub.model.get_parameter("model.norm.weight"), trained["model.norm.weight"])


def test_settings_for_a_server_are_refused_where_there_is_none(tmp_path):
    with pytest.raises(InputError, match="since this process samples"):
        rl_toy.options(tmp_path, sampling={"priority": 1})
