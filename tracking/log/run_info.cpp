#include "lockstep/run_info.h"

#include "core/field_reader.h"
#include "core/field_writer.h"

namespace lockstep {

Json to_json(const RunLength& length) {
  return {{"steps", length.steps > 0 ? Json(length.steps) : Json(nullptr)},
          {"epochs", length.epochs > 0 ? Json(length.epochs) : Json(nullptr)}};
}

template <class V>
void fields(V& v, RunLength& length) {
  v.if_readable("steps", length.steps);
  v.if_readable("epochs", length.epochs);
}

template <class V>
void fields(V& v, RunInfo& info) {
  v.if_readable("id", info.id);
  v.if_readable("name", info.name);
  v.if_readable("group", info.group);
  v.if_readable("job_type", info.job_type);
  v.if_readable("job_id", info.job_id);
  v.if_readable("rank", info.rank);
  v.if_readable("world_size", info.world_size);
  v.if_readable("node_rank", info.node_rank);
  v.if_readable("local_rank", info.local_rank);
  v.if_readable("host", info.host);
  v.if_readable("pid", info.pid);
  v.if_readable("created", info.created);
  v.if_readable("resumed", info.resumed);
  v.if_readable("command", info.command);
  v.if_readable("planned", info.planned);
}

Json to_json(const RunInfo& info) {
  auto copy = info;
  auto json = FieldWriter<Json>::written(copy);
  json["planned"] = to_json(info.planned);
  if (info.resumed == 0) json.erase("resumed");
  return json;
}

std::optional<RunInfo> run_info_from_json(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  RunInfo info;
  FieldReader<Json> reader(json);
  fields(reader, info);
  if (info.id.empty()) return std::nullopt;
  if (info.job_id.empty()) info.job_id = info.id;
  return info;
}

}  // namespace lockstep
