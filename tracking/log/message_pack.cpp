#include "tracking/log/message_pack.h"

namespace lockstep::tracking {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxKeys = 10'000;

// The library's reader recurses per level and its ordered map is searched per key: limits are
// checked before building.
class LimitCheck final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t size) override { return size <= kMaxKeys && ++depth_ <= kMaxDepth; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return ++depth_ <= kMaxDepth; }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
};

}  // namespace

std::string to_message_pack(const Json& json) {
  std::string bytes;
  Json::to_msgpack(json, bytes);
  return bytes;
}

std::optional<Json> from_message_pack(std::string_view bytes) {
  LimitCheck limits;
  if (!Json::sax_parse(bytes.begin(), bytes.end(), &limits, Json::input_format_t::msgpack))
    return std::nullopt;
  auto json = Json::from_msgpack(bytes.begin(), bytes.end(), true, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

}  // namespace lockstep::tracking
