#include "data/sets/class_names.h"

#include <fmt/format.h>

#include <charconv>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

Error class_error(const std::string& dataset, const std::string& where, const std::string& why) {
  return config_error(fmt::format("dataset {}: {}: {}", dataset, where, why));
}

}  // namespace

ClassNames::ClassNames(std::string dataset, const std::vector<std::string>& names)
    : dataset_(std::move(dataset)), names_(names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (!numbers_.emplace(names[i], static_cast<int64_t>(i)).second)
      throw class_error(dataset_, "classes", fmt::format("'{}' occurs twice", printable(names[i])));
}

int64_t ClassNames::class_from(std::string_view text, const std::string& where) const {
  if (const auto known = numbers_.find(std::string(text)); known != numbers_.end())
    return known->second;
  int64_t label = 0;
  const auto* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, label);
  const bool is_number = !text.empty() && parsed.ec == std::errc() && parsed.ptr == end;
  const auto given = printable(text);
  if (!is_number && names_.empty())
    throw class_error(
        dataset_, where,
        fmt::format("'{}' is not the number of a class; for names, set classes", given));
  if (!is_number)
    throw class_error(
        dataset_, where,
        fmt::format("'{}' is not one of classes{}", given, suggest(std::string(text), names_)));
  return verified(label, where);
}

int64_t ClassNames::verified(int64_t label, const std::string& where) const {
  if (label < 0) throw class_error(dataset_, where, fmt::format("class {} is negative", label));
  if (!names_.empty() && label >= std::ssize(names_))
    throw class_error(
        dataset_, where,
        fmt::format("class {} is not below {}, the number of classes", label, names_.size()));
  return label;
}

}  // namespace lockstep::data
