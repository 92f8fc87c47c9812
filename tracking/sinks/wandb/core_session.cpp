#include "tracking/sinks/wandb/core_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/sinks/protobuf_reader.h"
#include "tracking/sinks/protobuf_writer.h"

namespace lockstep::tracking {
namespace {

using namespace std::chrono_literals;
constexpr auto kCoreResponseTimeout = 15s;
constexpr auto kCoreStatusEvery = std::chrono::milliseconds(500);
constexpr auto kCoreTeardownTimeout = 2s;
constexpr uint64_t kCoreSeverityError = 40;
constexpr size_t kMaxCoreMessageLength = 300;

// Fields of ServerRequest (wandb_server.proto).
constexpr int kInformTeardown = 7, kRequestId = 10, kInitSync = 11, kSync = 12, kSyncStatus = 13;
// Fields of ServerResponse.
constexpr int kInitSyncResponse = 11, kSyncResponse = 12, kSyncStatusResponse = 13;
constexpr int kErrorResponse = 200;

std::string core_request(int kind, const ProtobufWriter& body) {
  ProtobufWriter request;
  request.message(kind, body);
  request.bytes(kRequestId, std::to_string(static_cast<int>(kind)));
  return request.take();
}

// The settings of wandb-core are messages {value = 1}.
void add_setting(ProtobufWriter& settings, int field, const std::string& value) {
  ProtobufWriter wrapped;
  wrapped.bytes(1, value);
  settings.message(field, wrapped);
}

void add_switch(ProtobufWriter& settings, int field) {
  ProtobufWriter wrapped;
  wrapped.varint(1, 1);
  settings.message(field, wrapped);
}

ProtobufWriter core_settings(const UploadTarget& target, const std::filesystem::path& scratch) {
  ProtobufWriter settings, interval;
  add_setting(settings, 57, target.base_url);
  add_setting(settings, 202, target.app_url);
  add_setting(settings, 55, target.api_key);
  add_setting(settings, 105, scratch.string());  // root_dir
  add_setting(settings, 142, scratch.string());  // wandb_dir: its log
  interval.float64(1, static_cast<double>(target.upload_every));
  settings.message(175, interval);  // x_file_stream_transmit_interval
  add_switch(settings, 182);        // x_primary: uploads the run's config and summary as files, too
  add_switch(settings, 183);        // x_update_finish_state
  return settings;
}

ProtobufWriter core_id(const std::string& id) {
  ProtobufWriter message;
  message.bytes(1, id);
  return message;
}

std::string_view core_field(std::string_view message, int number) {
  ProtobufReader reader(message);
  while (const auto field = reader.next())
    if (field->number == number) return field->bytes;
  return {};
}

}  // namespace

CoreSession::CoreSession(const UploadTarget& target, const Environment& environment)
    : base_url_(target.base_url),
      process_(CoreProcess::shared(target.core, target.scratch, environment)),
      connection_(*process_) {
  try {
    start(target);
  } catch (const Error&) {
    process_->mark_failed();
    throw;
  }
}

void CoreSession::start(const UploadTarget& target) {
  const auto place = process_->scratch() / target.file.stem();
  make_directories(place);
  ProtobufWriter init;
  init.bytes(1, target.file.string());
  init.message(2, core_settings(target, place));
  init.varint(6, 1);  // live
  init.bytes(7, place.string());
  connection_.send(core_request(kInitSync, init));
  const auto deadline = Clock::now() + kCoreResponseTimeout;
  while (id_.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const auto response = connection_.receive(std::max(left, 0ms));
    if (!response) throw environment_error("wandb-core does not respond");
    id_ = core_field(core_field(*response, kInitSyncResponse), 1);
  }
  auto sync = core_id(id_);
  sync.varint(2, 1);  // one file at a time
  connection_.send(core_request(kSync, sync));
}

void CoreSession::request_status() {
  if (requested_at_) return;
  connection_.send(core_request(kSyncStatus, core_id(id_)));
  requested_at_ = Clock::now();
}

bool CoreSession::wait(std::chrono::milliseconds timeout) {
  try {
    return has_ended(timeout);
  } catch (const Error&) {
    if (!is_done_) process_->mark_failed();  // else the error is the server's
    throw;
  }
}

bool CoreSession::has_ended(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  request_status();
  while (!is_done_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const auto response = connection_.receive(std::clamp(left, 0ms, kCoreStatusEvery));
    if (response)
      read_response(*response);
    else if (left <= 0ms)
      break;
    else
      request_status();
    if (requested_at_ && Clock::now() - *requested_at_ > kCoreResponseTimeout)
      throw environment_error("wandb-core does not respond");
  }
  if (is_done_ && !error_.empty()) fail();
  if (!is_done_) return false;
  if (process_.use_count() == 1) {
    connection_.send(core_request(kInformTeardown, {}));
    process_->wait(kCoreTeardownTimeout);
  }
  return true;
}

void CoreSession::read_response(std::string_view response) {
  ProtobufReader reader(response);
  while (const auto field = reader.next()) {
    if (field->number == kErrorResponse) {
      error_ = core_field(field->bytes, 1);
      is_done_ = true;
    }
    if (field->number == kSyncStatusResponse) read_status(field->bytes);
    if (field->number != kSyncResponse) continue;
    is_done_ = true;
    ProtobufReader messages(field->bytes);
    while (const auto message = messages.next())
      if (message->number == 1) read_message(message->bytes);
  }
}

// ServerSyncStatusResponse: stats = 1 {operations = 1 {desc = 1, error_status = 4}}, new_messages
// = 2.
void CoreSession::read_status(std::string_view status) {
  requested_at_.reset();
  activity_.clear();
  ProtobufReader reader(status);
  while (const auto field = reader.next()) {
    if (field->number == 2) read_message(field->bytes);
    if (field->number != 1) continue;
    ProtobufReader operations(field->bytes);
    while (const auto operation = operations.next())
      if (operation->number == 1) read_operation(operation->bytes);
  }
}

void CoreSession::read_operation(std::string_view operation) {
  const auto error = core_field(operation, 4);
  was_retrying_ = was_retrying_ || !error.empty();
  if (error.empty() && !activity_.empty()) return;
  activity_ = printable(error.empty() ? core_field(operation, 1) : error, kMaxCoreMessageLength);
}

void CoreSession::read_message(std::string_view message) {
  ProtobufReader reader(message);
  uint64_t severity = 0;
  std::string_view content;
  while (const auto field = reader.next()) {
    if (field->number == 1) severity = field->value;
    if (field->number == 2) content = field->bytes;
  }
  const bool is_error = severity >= kCoreSeverityError;
  is_accepted_ = is_accepted_ || !is_error;  // the first message is the URL of the run
  if (is_error && error_.empty()) error_ = content;
}

// wandb-core does not classify errors. It retries temporary failures for hours, so an immediate
// error before the server has accepted the run means that the run was rejected.
void CoreSession::fail() const {
  const auto reason = printable(error_, kMaxCoreMessageLength);
  if (is_accepted_ || was_retrying_)
    throw environment_error(fmt::format("W&B at {}: {}", base_url_, reason));
  throw config_error(
      fmt::format("W&B at {} rejected the run ({}): check WANDB_API_KEY, entity and project",
                  base_url_, reason));
}

}  // namespace lockstep::tracking
