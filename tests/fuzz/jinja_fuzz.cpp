// Arbitrary text is either a template that renders within its limits or a Config error.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "formats/jinja/jinja_template.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {

std::vector<std::string> fuzz_seeds() {
  return {
      "{% for message in messages %}{{ '<|' + message['role'] + '|>' }}{% generation %}{{- "
      "message.content | trim }}{% endgeneration %}{% endfor %}\n",
      "{%- set ns = namespace(n=0, x=[]) -%}{# c #}\n  {% for a in messages[::-1] if loop is not "
      "defined %}{% set ns.n = ns.n + 1 %}{% set ns.x = ns.x + [a] %}{% if ns.n > 2 %}{% break "
      "%}{% elif not a %}{% continue %}{% else %}{{ ns.x | tojson(indent=2) }}{% endif %}{% "
      "endfor %}",
      "{% macro f(x, y='z') %}{{ x ~ y * 3 }}{% endmacro %}{{ f(1, y=2) | upper }}{% set b "
      "%}t{% endset %}{{ b[1:-1] if b is string else raise_exception('no') }}{{ 7 // -2 % 3 }}",
      "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(', ') "
      "}}{{ 'a b'.split(' ') | sort | unique | list }}{{ {'a': 1.5}.items() }}{{ range(3) | sum "
      "}}"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  static const auto variables = formats::jinja::Value::from_json(nlohmann::ordered_json::parse(
      R"({"messages": [{"role": "user", "content": " Hi "}, {"role": "assistant",
          "content": "Hö"}], "bos_token": "<s>", "add_generation_prompt": false})"));
  try {
    const formats::jinja::Template parsed({reinterpret_cast<const char*>(data), size}, "input");
    const auto out = parsed.render(variables, std::tm{});
    if (out.text.size() > formats::jinja::kMaxTextBytes) std::abort();
    for (const auto& span : out.generations)
      if (span.begin > span.end || span.end > out.text.size()) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
