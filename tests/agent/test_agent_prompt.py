"""The prompt's variables are the documented ones, and the catalogue shows what a policy may load."""

import re
from pathlib import Path

from agent_world import LOAD, calls, harness, says, skill

from livery.agent.prompt import PromptTemplates, render_skills
from livery.harness.lint import PROMPT_VARIABLES, REQUEST_VARIABLES
from livery.harness.model import Limits, Rendering, Section, SkillFile
from livery.types import ErrorKind, Route

DOCS = Path(__file__).parents[2] / "docs/harness.md"


async def test_lint_and_docs_name_the_variables_that_sections_get(run, monkeypatch):
    given = {}
    render = PromptTemplates.render

    def kept(self, actions, facts):
        given.update(facts)
        return render(self, actions, facts)

    monkeypatch.setattr(PromptTemplates, "render", kept)
    await run([calls(LOAD), says("Hello.")])
    assert set(given) == REQUEST_VARIABLES
    always = set(PromptTemplates(harness(), ())._variables("text"))
    assert always == PROMPT_VARIABLES
    line = next(t for t in DOCS.read_text(encoding="utf-8").splitlines() if t.startswith("Every section may"))
    every, _, volatile = line.partition("Sections of volatility")
    every = re.sub(r"\(.*?\)", "", every)
    assert set(re.findall(r"`(\w+)`", every)) == PROMPT_VARIABLES
    assert set(re.findall(r"`(\w+)`", volatile.partition("may also use")[2])) == REQUEST_VARIABLES


async def test_every_variable_can_be_written_out_in_a_section_of_its_kind(run):
    release = " ".join(f"{{{{ {name} }}}}" for name in sorted(PROMPT_VARIABLES))
    room = " ".join(f"{{{{ {name} }}}}" for name in sorted(PROMPT_VARIABLES | REQUEST_VARIABLES))
    sections = (Section(key="a", template=release), Section(key="b", template=room, volatility="room"))
    _, policy = await run([calls(LOAD), says("Hello.")], "one?", worn=harness(sections=sections))
    system, user = policy.seen[0].messages
    assert "for price" in system.content
    assert "V0: one?" in user.content


def test_the_catalogue_says_when_to_use_a_skill():
    shown = (
        skill("price", extra={"when_to_use": "A viewer asks what it costs."}),
        skill("chain", extra={"when-to-use": ["First.", "Then."]}),
        skill("talk", extra={"when_to_use": None}),
    )
    assert render_skills(shown, Rendering()) == (
        "- price: for price - A viewer asks what it costs.\n- chain: for chain - First. - Then.\n- talk: for talk"
    )
    assert "for price - A viewer asks" in render_skills(shown, Rendering(skills="xml"))
    assert "for price - A viewer asks" in render_skills(shown, Rendering(skills="table"))


async def test_a_skill_that_is_not_for_a_policy_is_neither_shown_nor_loadable(run):
    kept = skill(
        "refund-desk",
        extra={"disable-model-invocation": True},
        files=(SkillFile(path="secret.md", content="Inner."),),
    )
    worn = harness(skills=(skill("price"), kept), limits=Limits(rounds=5))
    ask = calls(
        ("load_skill", {"name": "refund-desk"}),
        ("read_skill_file", {"skill": "refund-desk", "path": "secret.md"}),
    )
    trajectory, policy = await run([ask, calls(LOAD), says("Hello.")], worn=worn)
    assert "refund-desk" not in repr(policy.seen[0])
    assert [r.error.kind if r.error else None for r in trajectory.results] == [
        ErrorKind.NOT_FOUND,
        ErrorKind.UNKNOWN_TOOL,
        None,
    ]
    assert "perhaps: price" in trajectory.results[0].text
    assert trajectory.skills == ("price",)


async def test_a_reply_skill_that_is_not_for_a_policy_is_not_waited_for(run):
    worn = harness(skills=(skill("price", extra={"disable-model-invocation": "true"}),))
    trajectory, policy = await run([says("Hello.")], worn=worn)
    assert (trajectory.route, trajectory.reply) == (Route.AGENT, "Hello.")
    assert "load_skill" not in [t.name for t in policy.seen[0].tools]
