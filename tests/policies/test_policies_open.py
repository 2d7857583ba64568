"""Policies by URI, and what a wrong one says."""

import pytest

from livery.errors import InputError
from livery.policies import open_policy
from livery.policies.endpoint import EndpointPolicy


def faults(uri, **options):
    with pytest.raises(InputError) as caught:
        open_policy(uri, **options)
    return caught.value.problems


@pytest.mark.parametrize("uri", ["", "gpt", "http://127.0.0.1/v1"])
def test_an_unknown_scheme_lists_the_known_ones(uri):
    (problem,) = faults(uri)
    assert all(scheme in problem.message for scheme in ("llamacpp:", "openai:http", "scripted:host"))


async def test_an_endpoint_with_its_fields():
    policy = open_policy("openai:http://127.0.0.1:9/v1?model=a/b&actions=text&grammar=llamacpp&retries=0&warm=on")
    assert isinstance(policy, EndpointPolicy)
    assert policy.actions == "text"
    assert policy.weights == "a/b"
    assert policy.uri.startswith("openai:http://127.0.0.1:9/v1?model=a/b")
    options = policy._options
    assert (options.base_url, options.retries, options.warm) == ("http://127.0.0.1:9/v1", 0, True)
    await policy.aclose()


def test_every_fault_of_a_uri_is_told():
    problems = faults("openai:ftp://x/v1?actions=voice&retries=-1&modell=m")
    assert [p.field for p in problems] == ["", "actions", "retries", "modell"]
    assert "native or text" in problems[1].message
    assert "at least 0" in problems[2].message
    assert "model," in problems[3].message


@pytest.mark.parametrize(
    "uri",
    [
        "openai:http://me:hunter2@h/v1",
        "openai:http://h/v1?api_key=hunter2",
        "openai:http://h/v1?Token=hunter2",
    ],
)
def test_a_secret_in_a_uri_is_refused_and_not_repeated(uri):
    with pytest.raises(InputError, match="OPENAI_API_KEY") as caught:
        open_policy(uri)
    assert "hunter2" not in str(caught.value)


def test_faults_of_an_embedded_model_uri():
    problems = faults("llamacpp:/no/such.gguf?slots=0&ctx=big&lora=a.gguf*half")
    assert [p.field for p in problems] == ["lora", "slots", "ctx"]


def test_a_model_that_is_not_there(tmp_path):
    (problem,) = faults(f"llamacpp:{tmp_path}/m.gguf?threads=1")
    assert problem.code == "model-missing"


def test_adapters_are_for_the_embedded_model_only(tmp_path):
    (problem,) = faults("scripted:host", loras=[tmp_path / "a.gguf"])
    assert problem.code == "policy-lora"


@pytest.mark.parametrize("name", ["silent", "instant", "host"])
def test_scripted_policies_by_name(name):
    assert open_policy(f"scripted:{name}").uri == f"scripted:{name}"


@pytest.mark.model
async def test_the_embedded_model_by_uri(model_file):
    policy = open_policy(f"llamacpp:{model_file}?threads=1&ctx=512&slots=2")
    assert policy.uri.endswith("?threads=1&ctx=512&slots=2")
    assert policy.weights == "b179c9523d0e6a0f"
    assert policy.actions == "text"
    await policy.aclose()
