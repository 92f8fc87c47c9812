#include "tracking/sinks/tensorboard/hparams.h"

#include <fmt/format.h>

#include "tracking/sinks/tensorboard/summary.h"

namespace lockstep::tracking::tensorboard {
namespace {

constexpr int kVersion = 1, kSessionStart = 3, kSessionEnd = 4;  // of HParamsPluginData
constexpr uint64_t kSuccess = 1, kFailure = 2, kRunning = 3;     // Status

ProtobufWriter hparams_value(const char* tag, int kind, const ProtobufWriter& info) {
  ProtobufWriter data;
  data.varint(kVersion, 0);
  data.message(kind, info);
  return metadata_value(tag, "hparams", data);
}

// Encodes a google.protobuf.Value.
ProtobufWriter hyperparameter(const Json& value) {
  ProtobufWriter message;
  if (value.is_number()) {
    message.float64(2, value.get<double>());
  } else if (value.is_boolean()) {
    message.varint(4, value.get<bool>());
  } else {
    using Handler = nlohmann::detail::error_handler_t;
    message.bytes(3, value.is_string() ? as_utf8(value.get_ref<const std::string&>())
                                       : value.dump(-1, ' ', false, Handler::replace));
  }
  return message;
}

// Null and empty values are skipped.
void add_hyperparameters(tracking::ProtobufWriter& session, const std::string& name,
                         const Json& value) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      add_hyperparameters(session, name.empty() ? key : fmt::format("{}.{}", name, key), member);
  } else if (!value.is_null()) {
    tracking::ProtobufWriter entry;
    entry.bytes(1, as_utf8(name));
    entry.message(2, hyperparameter(value));
    session.message(1, entry);
  }
}

}  // namespace

ProtobufWriter session_start_value(const RunInfo& info, const Json& config) {
  ProtobufWriter session;
  if (config.is_object()) add_hyperparameters(session, "", config);
  session.bytes(4, as_utf8(info.job_id));
  session.float64(5, info.created);
  return hparams_value("_hparams_/session_start_info", kSessionStart, session);
}

ProtobufWriter session_end_value(const RunEnd& end, double time) {
  ProtobufWriter session;
  session.varint(1, end.state == RunState::Finished  ? kSuccess
                    : end.state == RunState::Running ? kRunning
                                                     : kFailure);
  session.float64(2, time);
  return hparams_value("_hparams_/session_end_info", kSessionEnd, session);
}

}  // namespace lockstep::tracking::tensorboard
