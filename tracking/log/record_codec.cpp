#include "tracking/log/record_codec.h"

#include <algorithm>

#include "tracking/log/message_pack.h"

namespace lockstep {
namespace {

template <class T>
void put_value(std::string& payload, const T& value) {
  payload.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Members of a record's map, each checked. After the first that is missing or of another type all
// is void.
class MapReader {
 public:
  explicit MapReader(const std::optional<Json>& json)
      : json_(json && json->is_object() ? &*json : nullptr) {}

  MapReader& text(const char* key, std::string& value) {
    const auto* member = find(key, [](const Json& json) { return json.is_string(); });
    if (member) value = member->get<std::string>();
    return *this;
  }
  template <class T>
  MapReader& number(const char* key, T& value) {
    const Json* member = find(key, [](const Json& json) {
      return std::is_floating_point_v<T> ? json.is_number() : json.is_number_integer();
    });
    if (member) value = member->template get<T>();
    return *this;
  }
  MapReader& flag(const char* key, bool& value) {
    const auto* member = find(key, [](const Json& json) { return json.is_boolean(); });
    if (member) value = member->get<bool>();
    return *this;
  }
  MapReader& numbers(const char* key, std::vector<double>& values) {
    const auto* member = list(key, [](const Json& item) { return item.is_number(); });
    if (member) values = member->get<std::vector<double>>();
    return *this;
  }
  MapReader& texts(const char* key, std::vector<std::string>& values) {
    const auto* member = list(key, [](const Json& item) { return item.is_string(); });
    if (member) values = member->get<std::vector<std::string>>();
    return *this;
  }
  MapReader& rows(const char* key, Json& value, size_t columns) {
    const auto* member =
        list(key, [&](const Json& item) { return item.is_array() && item.size() == columns; });
    if (member) value = *member;
    return *this;
  }
  MapReader& object(const char* key, Json& value) {
    const auto* member = find(key, [](const Json& json) { return json.is_object(); });
    if (member) value = *member;
    return *this;
  }
  MapReader& bytes(const char* key, std::string& value) {
    const auto* member = find(key, [](const Json& json) { return json.is_binary(); });
    if (member) value.assign(member->get_binary().begin(), member->get_binary().end());
    return *this;
  }
  MapReader& moment(Moment& at) {
    return text("name", at.name)
        .number("step", at.step)
        .number("time", at.time)
        .number("epoch", at.epoch);
  }
  bool has(const char* key) const { return json_ && json_->contains(key); }
  bool good() const { return json_ != nullptr; }

 private:
  template <class IsValid>
  const Json* find(const char* key, const IsValid& is_valid) {
    if (!json_) return nullptr;
    const auto it = json_->find(key);
    if (it != json_->end() && is_valid(*it)) return &*it;
    json_ = nullptr;
    return nullptr;
  }
  template <class IsValid>
  const Json* list(const char* key, const IsValid& is_valid) {
    return find(key, [&](const Json& json) {
      return json.is_array() && std::ranges::all_of(json, is_valid);
    });
  }

  const Json* json_;
};

Json moment_map(const Moment& at) {
  return {{"name", at.name}, {"step", at.step}, {"time", at.time}, {"epoch", at.epoch}};
}

std::optional<TextLevel> level_from(uint8_t level) {
  if (level > static_cast<uint8_t>(TextLevel::Error)) return std::nullopt;
  return static_cast<TextLevel>(level);
}

std::optional<Record> decode_key(std::string_view payload, size_t num_keys) {
  PayloadReader reader(payload);
  uint32_t id = 0;
  if (!reader.take(id) || id != num_keys) return std::nullopt;
  const auto name = reader.rest();
  if (name.empty() || name.size() > kMaxMetricNameBytes) return std::nullopt;
  return KeyRecord{std::string(name)};
}

std::optional<Record> decode_scalars(std::string_view payload, size_t num_keys) {
  PayloadReader reader(payload);
  LoggedRow row;
  if (!reader.take(row.step) || !reader.take(row.time) || !reader.take(row.epoch))
    return std::nullopt;
  std::pair<uint32_t, double> value;
  row.values.reserve(reader.rest().size() / (sizeof(value.first) + sizeof(value.second)));
  while (!reader.rest().empty()) {
    if (!reader.take(value.first) || !reader.take(value.second) || value.first >= num_keys)
      return std::nullopt;
    row.values.push_back(value);
  }
  return row;
}

std::optional<Record> decode_text(std::string_view payload) {
  PayloadReader reader(payload);
  TextLine text;
  uint8_t level = 0;
  if (!reader.take(text.time) || !reader.take(level) || !level_from(level)) return std::nullopt;
  text.level = *level_from(level);
  text.line = reader.rest();
  return text;
}

std::optional<Record> decode_rewind(std::string_view payload) {
  PayloadReader reader(payload);
  RewindRecord rewind;
  if (!reader.take(rewind.step) || !reader.rest().empty()) return std::nullopt;
  return rewind;
}

std::optional<Record> decode_console(std::string_view payload) {
  PayloadReader reader(payload);
  ConsoleLine line;
  uint32_t rank = 0;
  uint8_t stream = 0;
  if (!reader.take(line.time) || !reader.take(rank) || !reader.take(stream)) return std::nullopt;
  if (stream < 1 || stream > 2 || rank > INT32_MAX) return std::nullopt;
  line.rank = static_cast<int>(rank);
  line.is_error = stream == 2;
  line.line = reader.rest();
  return line;
}

std::optional<Record> decode_heartbeat(std::string_view payload) {
  PayloadReader reader(payload);
  Heartbeat heartbeat;
  if (!reader.take(heartbeat.time) || !reader.rest().empty()) return std::nullopt;
  return heartbeat;
}

std::optional<Record> decode_histogram(std::string_view payload) {
  const auto json = from_message_pack(payload);
  Histogram histogram;
  const bool good = MapReader(json)
                        .moment(histogram.at)
                        .numbers("edges", histogram.edges)
                        .numbers("counts", histogram.counts)
                        .good();
  if (!good || histogram.edges.size() != histogram.counts.size() + 1) return std::nullopt;
  return histogram;
}

std::optional<Record> decode_image(std::string_view payload) {
  const auto json = from_message_pack(payload);
  Image image;
  const bool good = MapReader(json)
                        .moment(image.at)
                        .number("width", image.width)
                        .number("height", image.height)
                        .text("caption", image.caption)
                        .bytes("png", image.png)
                        .good();
  if (!good || image.width < 1 || image.height < 1) return std::nullopt;
  return image;
}

std::optional<Record> decode_table(std::string_view payload) {
  const auto json = from_message_pack(payload);
  Table table;
  MapReader reader(json);
  reader.moment(table.at).texts("columns", table.columns);
  if (!reader.rows("rows", table.rows, table.columns.size()).good()) return std::nullopt;
  return table;
}

std::optional<Record> decode_alert(std::string_view payload) {
  const auto json = from_message_pack(payload);
  Alert alert;
  MapReader reader(json);
  int level = 0;
  reader.number("time", alert.time)
      .number("level", level)
      .text("title", alert.title)
      .text("text", alert.text);
  if (reader.has("step")) reader.number("step", alert.step.emplace());
  if (!reader.good() || level < 0 || level > static_cast<int>(TextLevel::Error))
    return std::nullopt;
  alert.level = static_cast<TextLevel>(level);
  return alert;
}

std::optional<Record> decode_artifact(std::string_view payload) {
  const auto json = from_message_pack(payload);
  ArtifactUse artifact;
  const bool good = MapReader(json)
                        .number("time", artifact.time)
                        .text("name", artifact.name)
                        .text("type", artifact.type)
                        .number("version", artifact.version)
                        .text("digest", artifact.digest)
                        .texts("aliases", artifact.aliases)
                        .object("metadata", artifact.metadata)
                        .flag("made", artifact.made)
                        .good();
  if (!good) return std::nullopt;
  return artifact;
}

// What a MessagePack payload holds, as `make` takes it.
template <class Make>
std::optional<Record> decode_map(std::string_view payload, const Make& make) {
  auto json = from_message_pack(payload);
  return json ? std::optional<Record>(make(std::move(*json))) : std::nullopt;
}

}  // namespace

std::optional<Record> decode_record(const Frame& frame, size_t num_keys) {
  const auto payload = frame.payload;
  const auto wrap = [](auto&& value) {
    return value ? std::optional<Record>(std::move(*value)) : std::nullopt;
  };
  switch (static_cast<FrameType>(frame.type)) {
    case FrameType::Identity:
      return decode_map(payload, [&](const Json& json) { return wrap(run_info_from_json(json)); });
    case FrameType::Config:
      return decode_map(payload, [](Json json) { return Record(ConfigRecord{std::move(json)}); });
    case FrameType::Key: return decode_key(payload, num_keys);
    case FrameType::Scalars: return decode_scalars(payload, num_keys);
    case FrameType::Text: return decode_text(payload);
    case FrameType::Rewind: return decode_rewind(payload);
    case FrameType::Summary:
      return decode_map(payload, [](Json json) -> std::optional<Record> {
        if (!json.is_object()) return std::nullopt;
        return SummaryRecord{std::move(json)};
      });
    case FrameType::End:
      return decode_map(payload, [&](const Json& json) { return wrap(run_end_from_json(json)); });
    case FrameType::Histogram: return decode_histogram(payload);
    case FrameType::Image: return decode_image(payload);
    case FrameType::Table: return decode_table(payload);
    case FrameType::Alert: return decode_alert(payload);
    case FrameType::Artifact: return decode_artifact(payload);
    case FrameType::Console: return decode_console(payload);
    case FrameType::Heartbeat: return decode_heartbeat(payload);
    case FrameType::Continued: return std::nullopt;  // stands first, and is no record
  }
  return UnknownRecord{};
}

std::string encode(const TextLine& text) {
  std::string payload;
  put_value(payload, text.time);
  put_value(payload, text.level);
  return payload + text.line;
}

std::string encode(const Histogram& histogram) {
  auto map = moment_map(histogram.at);
  map["edges"] = histogram.edges;
  map["counts"] = histogram.counts;
  return to_message_pack(map);
}

std::string encode(const Image& image) {
  auto map = moment_map(image.at);
  map["width"] = image.width;
  map["height"] = image.height;
  map["caption"] = image.caption;
  map["png"] = Json::binary({image.png.begin(), image.png.end()});
  return to_message_pack(map);
}

std::string encode(const Table& table) {
  auto map = moment_map(table.at);
  map["columns"] = table.columns;
  map["rows"] = table.rows;
  return to_message_pack(map);
}

std::string encode(const Alert& alert) {
  Json map = {{"time", alert.time},
              {"level", static_cast<int>(alert.level)},
              {"title", alert.title},
              {"text", alert.text}};
  if (alert.step) map["step"] = *alert.step;
  return to_message_pack(map);
}

std::string encode(const ArtifactUse& artifact) {
  return to_message_pack({{"time", artifact.time},
                          {"name", artifact.name},
                          {"type", artifact.type},
                          {"version", artifact.version},
                          {"digest", artifact.digest},
                          {"aliases", artifact.aliases},
                          {"metadata", artifact.metadata},
                          {"made", artifact.made}});
}

std::string encode(const ConsoleLine& line) {
  std::string payload;
  put_value(payload, line.time);
  put_value(payload, static_cast<uint32_t>(line.rank));
  put_value(payload, static_cast<uint8_t>(line.is_error ? 2 : 1));
  return payload + line.line;
}

}  // namespace lockstep
