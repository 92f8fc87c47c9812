#include "tracking/log/record_codec.h"

#include <algorithm>

#include "core/field_reader.h"
#include "core/field_writer.h"
#include "tracking/log/clip_type.h"
#include "tracking/log/message_pack.h"

namespace lockstep::tracking {
namespace {

template <class T>
void put_value(std::string& payload, const T& value) {
  payload.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace
}  // namespace lockstep::tracking

namespace lockstep {  // found by argument-dependent lookup: the types are public

template <class V>
void fields(V& v, Moment& at) {
  v("name", at.name);
  v("step", at.step);
  v("time", at.time);
  v("epoch", at.epoch);
}

template <class V>
void fields(V& v, Histogram& histogram) {
  fields(v, histogram.at);
  v("edges", histogram.edges);
  v("counts", histogram.counts);
}

template <class V>
void fields(V& v, Image& image) {
  fields(v, image.at);
  v("width", image.width);
  v("height", image.height);
  v("caption", image.caption);
  v.binary("png", image.png);
}

template <class V>
void fields(V& v, Clip& clip) {
  fields(v, clip.at);
  v("type", clip.type);
  v("caption", clip.caption);
  v.binary("bytes", clip.bytes);
}

template <class V>
void fields(V& v, Table& table) {
  fields(v, table.at);
  v("columns", table.columns);
  v("rows", table.rows);
}

template <class V>
void fields(V& v, Alert& alert) {
  auto level = static_cast<int>(alert.level);
  v("time", alert.time);
  v("level", level, 0, static_cast<int>(TextLevel::Error));
  v("title", alert.title);
  v("text", alert.text);
  v.given("step", alert.step);
  alert.level = static_cast<TextLevel>(level);
}

template <class V>
void fields(V& v, ArtifactUse& artifact) {
  v("time", artifact.time);
  v("name", artifact.name);
  v("type", artifact.type);
  v("version", artifact.version);
  v("digest", artifact.digest);
  v("aliases", artifact.aliases);
  v("metadata", artifact.metadata);
  v("made", artifact.made);
}

}  // namespace lockstep

namespace lockstep::tracking {
namespace {

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
    value.second = without_nan_sign(value.second);  // other programs write what their CPU made
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

// Decoded by its field list; nullopt if a field is missing or has another type.
template <class T>
std::optional<T> decode_members(std::string_view payload) {
  const auto json = from_message_pack(payload);
  if (!json) return std::nullopt;
  try {
    T value;
    FieldReader<Json> reader(*json);
    fields(reader, value);
    return value;
  } catch (const Error&) {
    return std::nullopt;
  }
}

template <class T>
std::string encode_members(const T& value) {
  // A writer does not modify its argument.
  return to_message_pack(FieldWriter<Json>::written(const_cast<T&>(value)));
}

std::optional<Record> decode_histogram(std::string_view payload) {
  auto histogram = decode_members<Histogram>(payload);
  if (!histogram || histogram->edges.size() != histogram->counts.size() + 1) return std::nullopt;
  return std::move(*histogram);
}

std::optional<Record> decode_image(std::string_view payload) {
  auto image = decode_members<Image>(payload);
  if (!image || image->width < 1 || image->height < 1) return std::nullopt;
  return std::move(*image);
}

std::optional<Record> decode_clip(std::string_view payload) {
  auto clip = decode_members<Clip>(payload);
  if (!clip) return std::nullopt;
  if (!find_clip_type(clip->type)) return UnknownRecord{};
  return std::move(*clip);
}

std::optional<Record> decode_table(std::string_view payload) {
  auto table = decode_members<Table>(payload);
  const auto is_row = [&](const Json& row) {
    return row.is_array() && row.size() == table->columns.size();
  };
  if (!table || !table->rows.is_array() || !std::ranges::all_of(table->rows, is_row))
    return std::nullopt;
  return std::move(*table);
}

std::optional<Record> decode_artifact(std::string_view payload) {
  auto artifact = decode_members<ArtifactUse>(payload);
  if (!artifact || !artifact->metadata.is_object()) return std::nullopt;
  return std::move(*artifact);
}

// The decoded MessagePack payload, passed to `make`.
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
    case FrameType::Alert: return wrap(decode_members<Alert>(payload));
    case FrameType::Artifact: return decode_artifact(payload);
    case FrameType::Console: return decode_console(payload);
    case FrameType::Heartbeat: return decode_heartbeat(payload);
    case FrameType::Clip: return decode_clip(payload);
    case FrameType::Continued: return std::nullopt;  // the first frame of a segment, not a record
  }
  return UnknownRecord{};
}

std::string encode(const TextLine& text) {
  std::string payload;
  put_value(payload, text.time);
  put_value(payload, text.level);
  return payload + text.line;
}

std::string encode(const Histogram& histogram) { return encode_members(histogram); }
std::string encode(const Image& image) { return encode_members(image); }
std::string encode(const Clip& clip) { return encode_members(clip); }
std::string encode(const Table& table) { return encode_members(table); }
std::string encode(const Alert& alert) { return encode_members(alert); }
std::string encode(const ArtifactUse& artifact) { return encode_members(artifact); }

std::string encode(const ConsoleLine& line) {
  std::string payload;
  put_value(payload, line.time);
  put_value(payload, static_cast<uint32_t>(line.rank));
  put_value(payload, static_cast<uint8_t>(line.is_error ? 2 : 1));
  return payload + line.line;
}

RunInfo continued_from(const std::optional<RunInfo>& before, RunInfo info) {
  if (!before) return info;
  info.resumed = info.created;
  info.created = before->created;
  return info;
}

}  // namespace lockstep::tracking
