"""Chat templates have the texts of transformers, and conversations its tokens and answers."""

import datetime
import json
import sys
from pathlib import Path

import chat_templates
import jinja2
import pytest
from chat_templates import CALLED, CONVERSATIONS, TEMPLATES, TOOL, turns
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

sys.path.insert(0, str(Path(__file__).parents[1] / "printer"))
import printer  # noqa: E402

DATE = "2025-03-04"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def answers_to(requests, folder):
    file = folder / "requests"
    file.write_text("".join(json.dumps(request) + "\n" for request in requests))
    ended = printer.run("chat", file)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def rendered(template, messages, **variables):
    """The text of transformers, or None for an error; and what {% generation %} marks, in characters."""
    try:
        texts, spans = render_jinja_template(
            conversations=[messages],
            chat_template=template,
            return_assistant_tokens_mask="endgeneration" in template,
            **TOKENS,
            **variables,
        )
    except Exception:  # jinja2's, and Python's within a template
        return None, []
    return texts[0], [list(span) for span in spans[0]] if spans else []


@pytest.mark.parametrize("name", TEMPLATES)
def test_texts_are_those_of_transformers(tmp_path, name):
    today = datetime.date.today().isoformat()
    cases = [
        ({"messages": messages, "tools": tools, "add_generation_prompt": prompt, "documents": None, **TOKENS}, messages, tools, prompt)
        for messages in [*CONVERSATIONS, CALLED]
        for tools in (None, [TOOL])
        for prompt in (False, True)
    ]
    requests = [{"template": TEMPLATES[name], "variables": case[0], "date": today} for case in cases]
    errors = 0
    for (_, messages, tools, prompt), ours in zip(cases, answers_to(requests, tmp_path), strict=True):
        text, spans = rendered(TEMPLATES[name], messages, tools=tools, add_generation_prompt=prompt)
        assert ours.get("text") == text, ours.get("error")
        if text is None:
            errors += 1
            assert ours["error"].startswith("template: line ")
        elif spans:
            to_bytes = [[len(text[:place].encode()) for place in span] for span in spans]
            assert ours["spans"] == to_bytes
    assert errors < len(cases)


# Each is a template or an expression of {{ }}.
SNIPPETS = """
1 + 2 * 3 - 4 // 3 % 2
-7 // 2 ~ ' ' ~ -7 % 3 ~ ' ' ~ 7 / 2 ~ ' ' ~ 1e16 ~ ' ' ~ 1.5e-5 ~ ' ' ~ 100000.0
'a' 'b' ~ "c\\n\\t\\x41\\u00e9" ~ 3 ~ none ~ true ~ [1, 'x', none] ~ {'k': 1.0}
[1, 2, 3][::-1] ~ 'häß'[1:] ~ 'häß'[-1] ~ 'abcdef'[1:5:2] ~ 'abc'[5:] ~ [1, 2][-5:1]
1 < 2 < 3 and not 2 in [3] or none
'a' in 'cat' and 'k' in {'k': 1} and 3 not in [1, 2]
x is defined ~ messages is defined ~ messages is iterable ~ 'x' is string ~ {} is mapping ~ none is none
(1 is odd) ~ (2 is even) ~ (9 is divisibleby 3) ~ (2 is in [1, 2]) ~ (1.0 is float) ~ (true is boolean) ~ (1 is number)
'  x  ' | trim ~ 'xxaxx' | trim('x') ~ 'a,b' | replace(',', ';') | upper ~ 'hello world' | title ~ 'ABC' | lower ~ 'abc' | capitalize
[3, 1, 2] | sort | join('-') ~ [1, 2] | first ~ [1, 2] | last ~ [1, 2] | length ~ [1, 1, 2] | unique | list ~ [1, 2] | sum
['b', 'A', 'a', 'B'] | sort ~ ['b', 'A', 'a'] | sort(true) ~ ['b', 'A', 'a'] | sort(case_sensitive=true) ~ ['b', 'B', 'a'] | unique | list ~ ['B', 'a', 'C'] | max ~ ['b', 'A'] | min
[{'n': 1, 'k': 'x'}, {'n': 1, 'k': 'y'}, {'n': 2, 'k': 'z'}] | sort(reverse=true, attribute='n') | map(attribute='k') | join
{'end_time': 1, 'endDate': 2, 'Age': 3} | dictsort ~ {'b': 1, 'A': 2} | dictsort(true) ~ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true)
"don't stop-me (now)" | title ~ "don't stop-me".title() ~ {'a': 'é'} | tojson(ensure_ascii=false) ~ {'a': 1} | tojson(false, 2)
[{'a': 1}, {'a': 2}, {'b': 3}] | selectattr('a', 'defined') | map(attribute='a') | list | tojson
[1, 2, 3, 4] | select('odd') | list ~ [1, 2, 3] | reject('equalto', 2) | list ~ ['a', 'b'] | map('upper') | join
missing | default('d') ~ '' | default('e', true) ~ missing | length ~ (missing or 'z')
{'b': 1, 'a': [1, {'c': 'é"\\\\'}], 'n': none} | tojson
{'b': [1, 2], 'e': [], 'd': {}} | tojson(indent=2)
{'b': 1, 'a': 2} | dictsort ~ {'a': 1}.items() | list ~ {'a': 1}.get('z', 5) ~ {'a': 1}.keys() | list
'a b  c'.split() ~ 'a,b,c'.split(',', 1) ~ ' x '.strip() ~ 'xxa'.lstrip('x') ~ 'abc'.startswith('ab') ~ 'abc'.endswith(('c', 'd'))
'a-b-c'.rsplit('-', 1) ~ 'aXbX'.replace('X', 'y', 1) ~ 'line\\nother'.splitlines() ~ 'abcb'.find('b') ~ 'abcb'.count('b') ~ '-'.join(['a', 'b'])
'x' if false
('x' if 1 > 2 else 'y') ~ ('a' if messages)
('3' | int + 4) ~ '2.5' | float ~ 3.7 | int ~ 2.345 | round(2) ~ -3 | abs
'a\\nb\\n\\nc' | indent(2) ~ 'a\\nb' | indent(2, true)
range(3) | list ~ range(5, 0, -2) | list
messages[0].role ~ messages[0]['content'] ~ messages[0].missing ~ messages | length
dict(a=1, b=2).b ~ namespace(x=3).x
([1, 2] + [3]) ~ 'ab' * 2 ~ (1, 2) ~ (3,) ~ ((1, 2) | tojson)
'quote\\'s' ~ ["it's", 'say "x"', 'tab\\t']
{% for a, b in [(1, 2), (3, 4)] %}{{ loop.index }}/{{ loop.length }}:{{ a }}{{ b }}{{ ',' if not loop.last }}{% endfor %}
{% for i in [1, 2, 3, 4] if i % 2 == 0 %}{{ i }}{{ loop.revindex }}{{ loop.previtem }}{{ loop.nextitem }}{% else %}none{% endfor %}{% for i in [] %}x{% else %}empty{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(n=0) %}{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}{% if i == 1 %}{% continue %}{% endif %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}
{% macro field(name, value='d', other=none) %}<{{ name }}={{ value }}{{ other }}>{% endmacro %}{{ field('a') }}{{ field('b', other=2) }}{{ field('c', 'v') | upper }}
{% set body %}  in {{ 1 + 1 }}  {% endset %}[{{ body | trim }}]{% set a, b = 1, 2 %}{{ a }}{{ b }}
a\\n  {% if true %}\\n  b\\n  {% endif %}\\n  {{ 1 }}\\n  {#- c -#}\\n d {%- if true -%} \\n e \\n {%- endif +%} \\n f\\n\\n
{%+ if true %}x{% endif %}\\n {%+ if true +%}\\ny{%- endif %}\\n\\t{# note #}\\nend\\n\\n
{{ '}}' }}{{ {'a': {'b': 1}}['a']['b'] }}{{ "{% x %}" }}
{% if messages and messages[0].role == 'user' %}u{% elif true %}e{% else %}n{% endif %}
{{ raise_exception('no') }}
{{ missing.attribute }}
{{ 1 + 'a' }}
{{ 1 // 0 }}
{{ 'a' < 1 }}
{{ messages | nothing }}
{% for x in 5 %}{% endfor %}
{{ (1, 2 }}
{% if true %}x
{{ 'abc
{% unknown %}
{{ strftime_now('%Y-%m-%d') | length }}
"""


def snippets():
    for line in SNIPPETS.strip().splitlines():
        yield line.replace("\\n", "\n").replace("\\t", "\t") if line.startswith(("{%", "a\\n")) else line if line.startswith("{") and "{{" in line else "{{ " + line + " }}"


def test_expressions_and_tags_are_those_of_jinja(tmp_path):
    templates = list(snippets())
    messages = turns("Hi", "Ho")
    ours = answers_to([{"template": template, "variables": {"messages": messages}, "date": DATE} for template in templates], tmp_path)
    for template, one in zip(templates, ours, strict=True):
        text, _ = rendered(template, messages)
        assert one.get("text") == text, (template, one)
    assert sum("error" in one for one in ours) == 11


@pytest.mark.parametrize(
    "template, text",
    [
        ("a\n{{ x.y }}", "template: line 2: 'x' is undefined"),
        ("a\n\n{% for %}", "template: line 3: expected a name, got the end of the tag"),
        ("{{ x | trimm }}", "template: line 1: filter 'trimm' is not supported; did you mean 'trim'?"),
        ("{% if x %}\n", "template: line 1: a tag 'endif' is missing"),
        ("{% call f() %}{% endcall %}", "expected a tag (if, for, set, macro, generation, break and continue are supported), got 'call'"),
        ("{% for i in range(100000) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}", "takes too many steps"),
        ("{{ range(1000000) }}", "range: it has more than 100000 items"),
        ("{{ 'x' * 99999999 }}", "a text is longer than 16777216 bytes"),
        ("{{ " + "[" * 300 + "]" * 300 + " }}", "more than 200 levels of nesting"),
        ("{{ " + "1 + " * 2000 + "1 }}", "the expression is too long"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "macros call each other too deeply"),
        ("{% set n = namespace() %}{% set n.x = n %}", "a namespace cannot be stored in another value"),
        ("{% set n = namespace(x=[]) %}{% for i in range(1000) %}{% set n.x = [n.x] %}{% endfor %}", "nested more than 100 levels deep"),
        ("{{ 9223372036854775807 + 1 }}", "a number is too large"),
        ("{{ 'é' | upper }}", "changing the case of letters outside ASCII is not supported"),
    ],
)
def test_errors_name_the_line(tmp_path, template, text):
    (ours,) = answers_to([{"template": template, "variables": {}}], tmp_path)
    assert text in ours["error"] and ours["error"].startswith("template: line ")


def write_tokenizer(folder, template):
    """A byte-level BPE tokenizer that learned the conversations, with the special tokens of all templates."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=chat_templates.SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([json.dumps(CONVERSATIONS)] * 3, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **TOKENS)
    wrapped.chat_template = template
    wrapped.save_pretrained(folder)
    return wrapped


TEXTS = [messages for messages in CONVERSATIONS if all(isinstance(message["content"], str) for message in messages)]


def mask_of(tokenizer, text, spans):
    """Which tokens have a character of the spans."""
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return [any(begin < last and end > first for first, last in spans) for begin, end in offsets]


def difference_of(tokenizer, messages, i):
    """(begin, end) of answer i: what it adds to the prompt for it, without thoughts that are left out later."""
    text, before, with_it = (
        render_jinja_template(conversations=[part], chat_template=tokenizer.chat_template, add_generation_prompt=prompt, **TOKENS)[0][0]
        for part, prompt in ((messages, False), (messages[:i], True), (messages[: i + 1], False))
    )
    if not (text.startswith(before) and with_it.startswith(before)):
        return None
    alone, rest = with_it[len(before) :], text[len(before) :]
    for answer in (alone, alone.removesuffix("</s>"), alone.split("</think>\n\n")[-1], "\n" + alone.split("</think>\n\n")[-1]):
        if rest.startswith(answer):
            return len(before), len(before) + len(answer)
    return None


@pytest.mark.parametrize("name", TEMPLATES)
def test_answers_are_those_of_transformers(tmp_path, name):
    folder = tmp_path / "tokenizer"
    tokenizer = write_tokenizer(folder, TEMPLATES[name])
    today = datetime.date.today().isoformat()
    ours = answers_to([{"tokenizer": str(folder), "record": {"messages": messages}, "date": today} for messages in TEXTS], tmp_path)
    compared = 0
    for messages, one in zip(TEXTS, ours, strict=True):
        try:
            if "endgeneration" in TEMPLATES[name]:
                whole = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
                tokens, mask = whole["input_ids"], [bool(flag) for flag in whole["assistant_masks"]]
            else:
                text = tokenizer.apply_chat_template(messages, tokenize=False)
                spans = [difference_of(tokenizer, messages, i) for i, message in enumerate(messages) if message["role"] == "assistant"]
                assert None not in spans
                tokens, mask = tokenizer(text, add_special_tokens=False)["input_ids"], mask_of(tokenizer, text, spans)
        except (jinja2.TemplateError, AssertionError):
            assert "error" in one
            continue
        compared += 1
        assert "error" not in one, one
        assert one["tokens"] == tokens
        assert one["answers"] == mask
        assert any(mask) == any(message["role"] == "assistant" for message in messages)
    assert compared >= 4


def test_a_directory_may_have_several_templates_or_a_file(tmp_path):
    folder = tmp_path / "tokenizer"
    write_tokenizer(folder, TEMPLATES["chatml"])
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    named = [{"name": "default", "template": "d {{ bos_token }}"}, {"name": "other", "template": "o"}]
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "bos_token": {"content": "<s>"}, "chat_template": named}))
    record = {"messages": [{"role": "user", "content": "x"}]}
    request = {"tokenizer": str(folder), "record": record}
    first, other, wrong = answers_to([request, {**request, "name": "other"}, {**request, "name": "othr"}], tmp_path)
    assert (first["text"], other["text"]) == ("d <s>", "o")
    assert "no chat template 'othr'; did you mean 'other'?" in wrong["error"]
    (folder / "chat_template.jinja").write_text("file")
    assert answers_to([request], tmp_path)[0]["text"] == "file"


@pytest.mark.parametrize("in_files", [False, True])
def test_conversations_with_tools_have_a_separate_template(tmp_path, in_files):
    folder = tmp_path / "tokenizer"
    tokenizer = write_tokenizer(folder, TEMPLATES["chatml"])
    tokenizer.chat_template = {"default": "plain", "tool_use": "tools{{ tools | length }}", "other": "o{{ strftime_now('%d') }}"}
    tokenizer.save_pretrained(folder)
    if not in_files:
        config = json.loads((folder / "tokenizer_config.json").read_text())
        named = [{"name": name, "template": text} for name, text in tokenizer.chat_template.items()]
        (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": named}))
        (folder / "chat_template.jinja").unlink()
    messages = turns("Hi")
    requests = [{"tokenizer": str(folder), "record": {"messages": messages, "tools": tools}} for tools in (None, [TOOL])]
    expected = [tokenizer.apply_chat_template(messages, tools=tools, tokenize=False) for tools in (None, [TOOL])]
    assert [one.get("text") for one in answers_to(requests, tmp_path)] == expected == ["plain", "tools1"]
    with_tools = requests[1]
    chosen, undated, wrong = answers_to([{**with_tools, "name": "other", "date": DATE}, {**with_tools, "name": "other"}, {**with_tools, "name": "othr"}], tmp_path)
    assert chosen["text"] == "o04" and "set date: YYYY-MM-DD" in undated["error"]
    assert "no chat template 'othr'; did you mean 'other'?" in wrong["error"]


CHATML_HI = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHo<|im_end|>\n"


@pytest.mark.parametrize(
    "record, text",
    [
        ({"messages": turns("Hi", "Ho"), "id": 3}, CHATML_HI),
        ({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]}, CHATML_HI),
        ({"prompt": "Hi", "completion": "Ho"}, CHATML_HI),
        ({"prompt": turns("Hi"), "completion": turns("Hi", "Ho")[1:]}, CHATML_HI),
        ({"instruction": "Hi", "input": "", "output": "Ho"}, CHATML_HI),
        ({"instruction": "Hi", "input": "you", "output": "Ho"}, CHATML_HI.replace("Hi", "Hi\n\nyou")),
        ({"text": "Hi Ho"}, "Hi Ho"),
    ],
)
def test_records_of_every_format(tmp_path, record, text):
    tokenizer = write_tokenizer(tmp_path / "tokenizer", TEMPLATES["chatml"])
    (ours,) = answers_to([{"tokenizer": str(tmp_path / "tokenizer"), "record": record}], tmp_path)
    assert ours["text"] == text
    answer = tokenizer.decode([token for token, learned in zip(ours["tokens"], ours["answers"]) if learned])
    assert answer == ("Hi Ho</s>" if "text" in record else "Ho<|im_end|>\n")


def test_tools_of_records(tmp_path):
    """A list or its JSON, next to messages, turns or a completion."""
    folder = tmp_path / "tokenizer"
    tokenizer = write_tokenizer(folder, TEMPLATES["qwen 2.5"])
    messages = turns("Hi", "Ho")
    spoken = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]
    records = [{"messages": messages}, {"conversations": spoken}, {"prompt": messages[:1], "completion": messages[1:]}]
    for given, tools in (([TOOL], [TOOL]), (json.dumps([TOOL]), [TOOL]), ("", None), ("null", None), (None, None)):
        expected = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
        requests = [{"tokenizer": str(folder), "record": {**record, "tools": given}} for record in records]
        assert [one.get("text") for one in answers_to(requests, tmp_path)] == [expected] * 3, given


@pytest.mark.parametrize(
    "record, text",
    [
        ({"chat": []}, "the record has no conversation: it has chat; valid are messages, conversations, prompt and completion"),
        ({"messages": []}, "'messages' is not a list of messages"),
        ({"messages": [{"content": "x"}]}, "'messages[0]' is not a message with a 'role'"),
        ({"conversations": [{"from": "bot", "value": "x"}]}, "'from' is 'bot'; valid are human, gpt, system"),
        ({"conversations": [{"from": "gpt"}]}, "'value' is missing"),
        ({"instruction": "x"}, "'output' is missing"),
        ({"text": 5}, "'text' is number, expected a text"),
        ({"messages": turns("Hi", "Ho"), "tools": "[{"}, "'tools' is neither a list nor the JSON of a list"),
        ({"prompt": "x", "completion": []}, "'prompt' is not a list of messages"),
        ([1], "expected a JSON object, got array"),
    ],
)
def test_bad_records(tmp_path, record, text):
    write_tokenizer(tmp_path / "tokenizer", TEMPLATES["chatml"])
    (ours,) = answers_to([{"tokenizer": str(tmp_path / "tokenizer"), "record": record}], tmp_path)
    assert text in ours["error"]
