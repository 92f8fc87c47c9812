"""The how-to guides: a newcomer finds each from README.md in at most two clicks."""
import re
from pathlib import Path

import links
import pytest

ROOT = Path(__file__).resolve().parents[2]


def clicks_from(root, start, most):
    """{page: clicks} of the Markdown pages that are at most `most` links from `start`, both relative to `root`."""
    clicks, pages = {start: 0}, [start]
    for page in pages:
        if clicks[page] == most:
            continue
        for _, target in links.links((root / page).read_text()):
            file = ((root / page).parent / target.partition("#")[0]).resolve()
            if re.match(r"[a-z]+:", target) or file.suffix != ".md" or not file.is_file() or not file.is_relative_to(root):
                continue
            name = file.relative_to(root).as_posix()
            if name not in clicks:
                clicks[name] = clicks[page] + 1
                pages.append(name)
    return clicks


GUIDES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "howto").glob("*.md"))
CLICKS = clicks_from(ROOT, "README.md", 2)


@pytest.mark.parametrize("page", GUIDES)
def test_a_guide_is_two_clicks_from_the_readme(page):
    assert page in CLICKS


def test_the_guides_are_those_of_the_index_and_of_the_navigation():
    others = {Path(page).name for page in GUIDES} - {"index.md"}
    assert len(others) >= 10
    listed = [target for _, target in links.links((ROOT / "docs" / "howto" / "index.md").read_text()) if "/" not in target]
    assert sorted(listed) == sorted(others)
    assert set(re.findall(r": howto/(\w+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)) == others


@pytest.mark.parametrize("page", [page for page in GUIDES if not page.endswith("index.md")])
def test_a_guide_has_commands_and_links_to_the_details(page):
    text = (ROOT / page).read_text()
    assert re.match(r"# \w", text)
    assert "```" in text
    assert any(target.startswith("../") for _, target in links.links(text))


def test_all_recipes_and_examples_are_listed():
    linked = {target for _, target in links.links((ROOT / "docs" / "recipes.md").read_text())}
    recipes = {f"../configs/{path.name}" for path in (ROOT / "configs").glob("*.yaml")}
    examples = {f"../examples/{path.name}" for path in (ROOT / "examples").iterdir() if path.is_dir()}
    assert len(recipes) > 10 and recipes <= linked and len(examples) > 8 and examples <= linked


def test_clicks_are_counted(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a.md").write_text("[1](b/b.md#x) [2](https://example.org/c.md) [3](none.md)")
    (tmp_path / "b" / "b.md").write_text("[1](../a.md) [2](c.md)")
    (tmp_path / "b" / "c.md").write_text("[1](d.md)")
    (tmp_path / "b" / "d.md").write_text("")
    assert clicks_from(tmp_path, "a.md", 2) == {"a.md": 0, "b/b.md": 1, "b/c.md": 2}
