#include "formats/tokenizer/text/json_part.h"

#include <fmt/format.h>

#include "core/printable.h"
#include "formats/tokenizer/text/unicode.h"

namespace lockstep::formats {
namespace {

constexpr int kMaxJsonDepth = 16;
constexpr size_t kMaxJsonParts = 1000;

const nlohmann::json kJsonNull;

}  // namespace

Error JsonPart::refused(const std::string& why) const {
  return config_error(fmt::format("{}: not a usable tokenizer.json: {}{}{}", *file_, place_,
                                  place_.empty() ? "" : ": ", why));
}

Error JsonPart::unsupported(const std::string& supported) const {
  const auto found = type().empty() ? std::string("it has no type")
                                    : fmt::format("'{}' is not supported", printable(type()));
  return refused(fmt::format("{}; supported: {}", found, supported));
}

bool JsonPart::has(const char* key) const {
  if (!value_->is_object()) return false;
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

std::string JsonPart::type() const {
  return has("type") && (*value_)["type"].is_string() ? (*value_)["type"].get<std::string>() : "";
}

const nlohmann::json& JsonPart::needed(const char* key) const {
  if (!has(key)) throw refused(fmt::format("it has no {}", key));
  return *value_->find(key);
}

std::string JsonPart::text(const char* key) const {
  const auto& value = needed(key);
  if (!value.is_string()) throw refused(fmt::format("{} is not a text", key));
  return value.get<std::string>();
}

std::string JsonPart::text(const char* key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

std::string JsonPart::character(const char* key) const {
  const auto value = text(key);
  if (count_characters(value) != 1) throw refused(fmt::format("{} is not one character", key));
  return value;
}

bool JsonPart::flag(const char* key, std::optional<bool> otherwise) const {
  if (!has(key) && otherwise) return *otherwise;
  const auto& value = needed(key);
  if (!value.is_boolean()) throw refused(fmt::format("{} is neither true nor false", key));
  return value.get<bool>();
}

int64_t JsonPart::number(const char* key, int64_t least, int64_t greatest,
                         std::optional<int64_t> otherwise) const {
  if (!has(key) && otherwise) return *otherwise;
  const auto& value = needed(key);
  const bool fits =
      value.is_number_unsigned() ? value.get<uint64_t>() <= INT64_MAX : value.is_number_integer();
  if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > greatest)
    throw refused(fmt::format("{} is not a number from {} to {}", key, least, greatest));
  return value.get<int64_t>();
}

JsonPart JsonPart::element(const nlohmann::json& value, const std::string& name) const {
  JsonPart part = *this;
  part.value_ = &value;
  part.place_ += (name.starts_with('[') || place_.empty() ? "" : ".") + printable(name);
  if (++part.depth_ > kMaxJsonDepth)
    throw refused(fmt::format("it is nested more than {} times", kMaxJsonDepth));
  return part;
}

JsonPart JsonPart::part(const char* key) const {
  return element(has(key) ? *value_->find(key) : kJsonNull, key);
}

std::vector<JsonPart> JsonPart::parts(const char* key) const {
  const auto& list = needed(key);
  if (!list.is_array() || list.size() > kMaxJsonParts)
    throw refused(fmt::format("{} is not a list of at most {} parts", key, kMaxJsonParts));
  std::vector<JsonPart> parts;
  for (size_t i = 0; i < list.size(); ++i)
    parts.push_back(element(list[i], fmt::format("{}[{}]", key, i)));
  return parts;
}

}  // namespace lockstep::formats
