#include "core/bounded_json.h"

namespace lockstep {

Json parse_json(std::string_view text) {
  bool is_too_deep = false;
  // The parser itself does not recurse, nor does the destructor of a value.
  const auto check = [&](int depth, Json::parse_event_t event, const Json&) {
    const bool begins =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    is_too_deep = is_too_deep || (begins && depth >= kMaxJsonDepth);
    return !is_too_deep;
  };
  auto json = Json::parse(text, check, /*allow_exceptions=*/false);
  return is_too_deep ? Json(Json::value_t::discarded) : json;
}

}  // namespace lockstep
