// Arbitrary bytes from the network at the rendezvous: frames are messages or a one-line Environment
// error, however they are split. A decoded message survives a round trip.
#include <cstdlib>
#include <string>
#include <vector>

#include "launch/protocol/authentication.h"
#include "launch/protocol/frame.h"
#include "launch/protocol/messages.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

constexpr size_t kMaxBytes = 4096;

template <class Decode>
void verify_inverse(std::string_view content, const Decode& decode) {
  try {
    const auto message = decode(content);
    if (!message) return;
    const auto written = encode(*message);
    if (encode(decode(written).value()) != written) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Environment) std::abort();
  }
}

void verify_message(std::string_view content) {
  verify_inverse(content, launch::decode_node_message);
  verify_inverse(content, launch::decode_coordinator_message);
}

struct Frames {
  std::vector<std::string> contents;
  bool refused = false;
  bool operator==(const Frames&) const = default;
};

Frames frames_of(std::string_view bytes, size_t piece) {
  launch::FrameReader reader(kMaxBytes);
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
  launch::FrameSeal seal(launch::Side::Node, "a token", {.coordinator = "a", .node = "b"});
  for (const auto& content : contents) {
    if (content.size() > kMaxBytes) std::abort();
    verify_message(content);
    try {
      seal.open(content);
      std::abort();  // a code cannot be guessed
    } catch (const Error&) {
    }
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  launch::LaunchReport report{.world_size = 4};
  report.workers.push_back({.rank = 3, .local_rank = 1, .node_rank = 1, .host = "beta"});
  report.workers.back().exit.signal = 9;
  report.workers.back().error = launch::ErrorReport{.message = "no more paper", .timestamp_us = 5};
  report.workers.back().last_lines = {"one", "two"};
  report.node_failures.push_back({.node_rank = 1, .host = "beta", .reason = "lost"});
  const launch::JoinMessage join{
      .host = "beta", .node_rank = 1, .agreements = {{"--nnodes", "2"}, {"the run file", "abc"}}};
  launch::JobState job{.key = "ab",
                       .nodes = {{.address = "10.0.0.1", .port = 1, .label = "alpha"}}};
  job.ranks = {0};
  job.flags = {launch::JobState::Alive};
  job.starts = {1};
  job.losses = {{.rank = 1, .how = "killed"}};
  auto returning = join;
  returning.returning = launch::ReturningNode{.job = job, .events = {{.how = "killed"}}};
  const launch::GroupState group{.ranks = {0}, .job = job};
  launch::NodePlace start{.world_size = 4};
  start.master_port = 1;
  launch::RankView view{.progress = {.rank = 3, .pid = 99, .operation = "gradient all_reduce"},
                        .host = "beta",
                        .stacks = "    training thread\n"};
  const std::vector<std::string> messages = {
      encode(launch::ChallengeMessage{.version = "0.1.0", .challenge = "ab"}),
      encode(launch::NodeProofMessage{.version = "0.1.0", .challenge = "cd", .proof = "ef"}),
      encode(launch::CoordinatorProofMessage{.proof = "01"}),
      encode(join),
      encode(returning),
      encode(launch::CoordinatorMessage(group)),
      encode(launch::WelcomeMessage{.host = "alpha"}),
      encode(launch::RefusedMessage{.kind = ErrorKind::Config, .message = "not you"}),
      encode(launch::ReadyMessage{.address = "10.0.0.1", .port = 29500}),
      encode(start),
      encode(launch::StatusMessage{.ranks = {view, view}}),
      encode(launch::StackRequest{.ranks = {3, 4}}),
      encode(launch::StackRequest{.dump = true}),
      encode(launch::EndedMessage{.report = report, .time_us = 7}),
      encode(
          launch::FinishMessage{.report = report, .error = launch::ErrorReport{.message = "gone"}}),
      encode(launch::StopOrder{}),
      encode(launch::ProbeMessage{}),
      encode(launch::ProbeReplyMessage{}),
      encode(launch::DroppedMessage{}),
      encode(launch::NodeMessage(launch::HeartbeatMessage{}))};
  std::vector<std::string> seeds;
  std::string all;
  for (const auto& message : messages) {
    seeds.push_back(launch::make_frame(message));
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
  // Also as the content of a frame, so that messages are decoded for any length field.
  if (size > 4) lockstep::verify_message(bytes.substr(4));
  return 0;
}
