// What comes over the network at the rendezvous may be anything: its frames are messages or an
// Environment error of one line, whatever the pieces they come in. A message that is understood is
// written and read again to the same.
#include <cstdlib>
#include <string>
#include <vector>

#include "launch/rendezvous/authentication.h"
#include "launch/rendezvous/frame.h"
#include "launch/rendezvous/messages.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

constexpr size_t kMostBytes = 4096;

template <class Parse>
void verify_inverse(const nlohmann::json& message, const Parse& parse) {
  try {
    const auto written = to_json(parse(message));
    if (to_json(parse(written)) != written) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Environment) std::abort();
  }
}

void verify_message(const std::string& content) {
  const auto message = parse_message(content);
  type_of(message);
  verify_inverse(message, parse_join);
  verify_inverse(message, parse_ready);
  verify_inverse(message, parse_start);
  verify_inverse(message, parse_ended);
  verify_inverse(message, parse_finish);
  try {
    parse_refusal(message);
  } catch (const Error&) {
  }
}

struct Frames {
  std::vector<std::string> contents;
  bool refused = false;
  bool operator==(const Frames&) const = default;
};

Frames frames_of(std::string_view bytes, size_t piece) {
  FrameReader reader(kMostBytes);
  Frames frames;
  try {
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.feed(bytes.substr(at, piece));
      while (auto content = reader.next()) frames.contents.push_back(std::move(*content));
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Environment) std::abort();
    frames.refused = true;
  }
  return frames;
}

void verify_frames(const std::vector<std::string>& contents) {
  FrameSeal seal(Side::Node, "a token", {.coordinator = "a", .node = "b"});
  for (const auto& content : contents) {
    if (content.size() > kMostBytes) std::abort();
    try {
      verify_message(content);
    } catch (const Error&) {
    }
    try {
      seal.open(content);
      std::abort();  // nobody can guess a code
    } catch (const Error&) {
    }
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  LaunchReport report{.world_size = 4};
  report.workers.push_back({.rank = 3, .local_rank = 1, .node_rank = 1, .host = "beta"});
  report.workers.back().exit.signal = 9;
  report.workers.back().error = ErrorReport{.message = "no more paper", .timestamp_us = 5};
  report.workers.back().last_lines = {"one", "two"};
  report.node_failures.push_back({.node_rank = 1, .host = "beta", .reason = "lost"});
  const JoinMessage join{
      .host = "beta", .node_rank = 1, .agreements = {{"--nnodes", "2"}, {"the run file", "abc"}}};
  NodePlace start{.world_size = 4};
  start.master_port = 1;
  std::vector<nlohmann::json> messages = {
      to_json(join),
      to_json(ReadyMessage{.address = "10.0.0.1", .port = 29500}),
      to_json(start),
      to_json(EndedMessage{.report = report, .time_us = 7}),
      to_json(FinishMessage{.report = report, .error = ErrorReport{.message = "gone"}}),
      refusal(config_error("not you")),
      {{"type", "status"}, {"value", {1, 2.5, nullptr}}}};
  std::vector<std::string> seeds;
  std::string all;
  for (const auto& message : messages) {
    seeds.push_back(make_frame(message.dump()));
    all += seeds.back();
  }
  seeds.push_back(all);
  return seeds;
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto frames = lockstep::frames_of(bytes, size_t{1} << 20);
  if (lockstep::frames_of(bytes, 7) != frames) std::abort();
  lockstep::verify_frames(frames.contents);
  // Also as the content of a frame, so that the messages are reached whatever the length says.
  if (size > 4) {
    try {
      lockstep::verify_message(std::string(bytes.substr(4)));
    } catch (const lockstep::Error&) {
    }
  }
  return 0;
}
