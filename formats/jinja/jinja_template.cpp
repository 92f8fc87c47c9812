#include "formats/jinja/jinja_template.h"

#include <fmt/format.h>

#include "core/printable.h"
#include "formats/jinja/interpreter.h"
#include "formats/jinja/syntax.h"
#include "lockstep/error.h"

namespace lockstep::formats::jinja {
namespace {

constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

std::unique_ptr<const Syntax> parsed(std::string_view source, const std::string& name) {
  if (source.size() > kMaxTemplateBytes)
    throw config_error(fmt::format("{}: it is longer than {} bytes", name, kMaxTemplateBytes));
  if (const auto at = find_invalid_utf8(source); at != source.npos)
    throw config_error(fmt::format("{}: byte {} is not valid UTF-8", name, at));
  try {
    return std::make_unique<const Syntax>(parse_syntax(source));
  } catch (const Problem& problem) {
    throw config_error(fmt::format("{}: {}", name, problem.what()));
  }
}

}  // namespace

Template::Template(std::string_view source, std::string name)
    : name_(std::move(name)), syntax_(parsed(source, name_)) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;

RenderedText Template::render(const Value& variables, const std::optional<std::tm>& date) const {
  Interpreter interpreter(*syntax_, variables, date ? &*date : nullptr);
  try {
    return interpreter.run();
  } catch (const Problem& problem) {
    throw config_error(fmt::format("{}: line {}: {}", name_, interpreter.line(), problem.what()));
  }
}

bool Template::has_generation() const { return syntax_->has_generation; }
bool Template::uses_date() const { return syntax_->uses_date; }

}  // namespace lockstep::formats::jinja
