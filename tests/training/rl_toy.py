"""A world of two turns for RL's tests: a "tool" turn that earns by even ids, a reply that earns by odd ones. Not a test
module; needs torch."""

import asyncio

from policies_tiny_model import chat_tokenizer, tiny_llama

from livery.policies.policy import PolicyRequest, PromptMessage
from livery.training.rl import Sampler, rl
from livery.training.rl_options import RlOptions
from livery.training.rl_rollouts import Rollouts, Sample

TURN = 4
"""Most tokens of a turn."""


def options(out, **changes):
    settings = {
        "steps": 4, "group": 4, "groups_a_batch": 1, "accumulate": 2, "updates": 2, "learning_rate": 5e-3,
        "call_rewards": {"even": 1.0}, "reply_rewards": {"odd": 1.0}, "save_every": 100, "cpu": True, "start_floor": 0.0,
    }  # fmt: skip
    return RlOptions(out=out, **{**settings, **changes})


class Toy:
    """TRL's ``rollout_func`` over two turns of a policy."""

    def __init__(self, options, tokenizer=None):
        self.sampler = Sampler(options, tokenizer or chat_tokenizer())
        self.seen = []
        self.samples = []

    def __call__(self, prompts, trainer):
        self.seen.append(list(prompts))
        policy = self.sampler(trainer)
        step = trainer.state.global_step

        async def play():
            seeds = [1000 * step + i for i in range(len(prompts))]
            return await asyncio.gather(*(one(policy, p, s) for p, s in zip(prompts, seeds, strict=True)))

        self.samples.append(asyncio.run(play()))
        return Rollouts(samples=self.samples[-1]).as_trl()


async def one(policy, prompt, seed):
    messages = (PromptMessage(role="system", content=f"Task {int(prompt) % 3}. Be brief, whatever is asked here."),)
    first = await policy.act(request(messages, seed))
    messages = (
        *messages,
        PromptMessage(role="assistant", content=first.text),
        PromptMessage(role="user", content="On."),
    )
    second = await policy.act(request(messages, seed, previous=first, previous_messages=1))
    ids, written, kinds, logprobs = [], [], [], []
    for kind, turn in enumerate((first, second)):
        read = turn.tokens.prompt_ids[len(ids) :]
        assert list(turn.tokens.prompt_ids[: len(ids)]) == ids
        wrote = turn.tokens.output_ids
        ids += [*read, *wrote]
        written += [False] * len(read) + [True] * len(wrote)
        kinds += [kind] * (len(read) + len(wrote))
        logprobs += [0.0] * len(read) + list(turn.tokens.logprobs)
    even = [i % 2 == 0 for i in first.tokens.output_ids]
    odd = [i % 2 == 1 for i in second.tokens.output_ids]
    rewards = {"even": sum(even) / len(even), "odd": sum(odd) / len(odd)}
    outcome = {"success": float(sum(rewards.values()) > 1), "truncated": 0.0, "tokens": float(sum(written))}
    return Sample(
        ids=tuple(ids),
        written=tuple(written),
        kinds=tuple(kinds),
        logprobs=tuple(logprobs),
        rewards=rewards,
        outcome=outcome,
    )


def request(messages, seed, *, timeout_s=60.0, **more):
    return PolicyRequest(messages=messages, tools=(), max_tokens=TURN, timeout_s=timeout_s, seed=seed, **more)


def run(out, model=None, *, callbacks=(), rollouts=None, **changes):
    chosen = options(out, **changes)
    toy = rollouts or Toy(chosen)
    result = rl(chosen, toy, model or tiny_llama(), chat_tokenizer(), data={"tasks": 8}, callbacks=callbacks)
    return result, toy
