// The rendezvous messages as bytes: peers with the same protocol version read exactly these.
#include "launch/protocol/messages.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "launch/protocol/connection.h"

namespace lockstep::launch {
namespace {

std::string error_of_message(const std::string& content) {
  try {
    decode_node_message(content);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Environment);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("messages: the wire format does not change") {
  CHECK(encode(ChallengeMessage{.version = "1", .challenge = "a"}) ==
        R"({"challenge":"a","protocol":1,"type":"challenge","version":"1"})");
  CHECK(encode(NodeProofMessage{.version = "1", .challenge = "b", .proof = "c"}) ==
        R"({"challenge":"b","proof":"c","protocol":1,"type":"proof","version":"1"})");
  CHECK(encode(CoordinatorProofMessage{.proof = "d"}) == R"({"proof":"d","type":"proof"})");
  CHECK(encode(JoinMessage{.host = "h", .node_rank = 2, .agreements = {{"x", "y"}}}) ==
        R"({"agreements":[{"value":"y","what":"x"}],"host":"h","node_rank":2,"num_workers":1,)"
        R"("serves":false,"type":"join"})");
  CHECK(encode(WelcomeMessage{.host = "h"}) == R"({"host":"h","type":"welcome"})");
  CHECK(encode(RefusedMessage{.kind = ErrorKind::Config, .message = "m"}) ==
        R"({"kind":"config","message":"m","type":"refused"})");
  CHECK(encode(ReadyMessage{.address = "::1", .port = 7}) ==
        R"({"address":"::1","port":7,"type":"ready"})");
  NodePlace place{.node_rank = 1, .num_nodes = 2, .first_rank = 3, .world_size = 6};
  place.master_port = 4321;
  CHECK(encode(place) ==
        R"({"first_rank":3,"master_addr":"127.0.0.1","master_port":4321,"max_restarts":0,)"
        R"("node_rank":1,"num_nodes":2,"restart_count":0,"run_id":"","type":"start",)"
        R"("world_size":6})");
  GroupEventsMessage killed;
  killed.events.push_back({.kind = GroupEvent::Kind::Killed, .worker = 1, .how = "killed"});
  CHECK(encode(killed) ==
        R"({"events":[{"how":"killed","kind":2,"request":"broken -1 0 0 0 0","worker":1}],)"
        R"("type":"group_events"})");
  GroupState state;
  state.world_size = 2;
  state.ranks = {0, -1};
  state.replaced = {1};
  CHECK(encode(state) ==
        R"({"answers":[],"ranks":[0,-1],"replaced":[1],"type":"group","world_size":2})");
  CHECK(encode(StopOrder{}) == R"({"type":"stop"})");
  CHECK(encode(StackRequest{.ranks = {1, 2}}) == R"({"type":"answer","value":{"stacks":[1,2]}})");
  CHECK(encode(StackRequest{.dump = true}) == R"({"type":"answer","value":{"dump":true}})");
  CHECK(encode(ProbeMessage{}) == R"({"type":"probe"})");
  CHECK(encode(ProbeReplyMessage{}) == R"({"type":"here"})");
  CHECK(encode(DroppedMessage{}) == R"({"type":"dropped"})");
  CHECK(encode(NodeMessage(HeartbeatMessage{})) == R"({"type":"alive"})");
  CHECK(encode(CoordinatorMessage(HeartbeatMessage{})) == R"({"type":"alive"})");
}

TEST_CASE("messages: the outline of a job whose ranks failed alike blames none of them") {
  const auto rejected = [](int rank) {
    return WorkerEnd{.rank = rank,
                     .exit = {.code = 78},
                     .error = ErrorReport{.message = "no", .kind = "config", .timestamp_us = 5}};
  };
  const LaunchReport report{.world_size = 2, .workers = {rejected(0), rejected(1)}};
  const auto outline = outline_of(report);
  CHECK(outline.workers.size() == 1);
  const auto read = decode_coordinator_message(encode(FinishMessage{.report = outline}));
  REQUIRE(read);
  CHECK(std::get<FinishMessage>(*read).report.summary() ==
        "all 2 ranks failed: exited with code 78 (the input is wrong)");
}

TEST_CASE("messages: encoding and decoding round-trip") {
  LaunchReport report{.world_size = 4};
  report.workers.push_back({.rank = 3, .local_rank = 1, .node_rank = 1, .pid = 7, .host = "beta"});
  report.workers.back().exit.signal = 9;
  const auto node = [](const NodeMessage& message) {
    const auto content = encode(message);
    const auto read = decode_node_message(content);
    REQUIRE(read);
    CHECK(read->index() == message.index());
    CHECK(encode(*read) == content);
  };
  const auto coordinator = [](const CoordinatorMessage& message) {
    const auto content = encode(message);
    const auto read = decode_coordinator_message(content);
    REQUIRE(read);
    CHECK(read->index() == message.index());
    CHECK(encode(*read) == content);
  };
  node(NodeProofMessage{.version = "1", .challenge = "b", .proof = "c"});
  node(JoinMessage{.host = "h", .num_workers = 8, .serves = true});
  node(ReadyMessage{.address = "10.0.0.1", .port = 7});
  node(StatusMessage{.ranks = {RankView{.progress = {.rank = 7}, .stacks = "    main\n"}}});
  node(EndedMessage{.report = report, .time_us = 5, .leaves = true});
  node(ProbeReplyMessage{});
  node(HeartbeatMessage{});
  coordinator(ChallengeMessage{.version = "1", .challenge = "b"});
  coordinator(CoordinatorProofMessage{.proof = "c"});
  coordinator(RefusedMessage{.kind = ErrorKind::Config, .message = "m"});
  coordinator(WelcomeMessage{.host = "h"});
  coordinator(NodePlace{.world_size = 2, .master_port = 1});
  coordinator(StopOrder{});
  coordinator(StackRequest{.ranks = {1}});
  coordinator(StackRequest{.dump = true});
  coordinator(ProbeMessage{});
  coordinator(DroppedMessage{});
  coordinator(FinishMessage{.report = report, .error = ErrorReport{.message = "gone"}});
  coordinator(HeartbeatMessage{});
}

TEST_CASE("messages: the report of many ranks that failed fits, with what the cause printed") {
  LaunchReport report{.world_size = 1000};
  for (int rank = 0; rank < report.world_size; ++rank)
    report.workers.push_back({.rank = rank,
                              .exit = {.code = 78},
                              .time_us = 1000 - rank,
                              .last_lines = std::vector<std::string>(10, std::string(1000, '\1'))});
  report.workers[5].error = ErrorReport{.message = "peer", .peer = true, .timestamp_us = 1};
  report.node_failures.push_back({.reason = std::string(100'000, 'x')});
  const auto content = encode(EndedMessage{.report = report});
  CHECK(content.size() < Connection::kMaxMessageBytes);
  const auto read = decode_node_message(content);
  REQUIRE(read);
  const auto& received = std::get<EndedMessage>(*read).report;
  REQUIRE(received.cause());
  CHECK(received.cause()->rank == 999);
  CHECK(received.cause()->last_lines == report.workers[999].last_lines);
  CHECK(received.workers[5].lost_peer());
}

TEST_CASE("messages: the time of an error remains valid on a node with another clock") {
  LaunchReport report;
  report.workers.push_back({.time_us = unix_time_us(), .error = ErrorReport{.timestamp_us = 5}});
  report.workers.back().exit.code = 1;
  LaunchReport attempt;
  add_to(attempt, {.report = report, .time_us = unix_time_us() + 1'000'000'000}, "beta", false);
  CHECK(decode_coordinator_message(encode(FinishMessage{.report = attempt})));
}

TEST_CASE("messages: received bytes are validated") {
  for (const char* garbage : {"", "{", "[]", "5", "{}", R"({"type": 5})"})
    CHECK(error_of_message(garbage) == "malformed message");
  CHECK(error_of_message(R"({"type": "join"})") == "invalid message: 'host' is missing or invalid");
  CHECK(error_of_message(R"({"type": "ready", "address": "", "port": 0})") ==
        "invalid message: 'port' is missing or invalid");
  CHECK(error_of_message(R"({"type": "status", "value": 5})") ==
        "invalid message: 'value' is missing or invalid");
  CHECK_THROWS_AS(decode_coordinator_message(R"({"type": "answer", "value": {"stacks": ["all"]}})"),
                  Error);
  // An unreadable rank is skipped; the message remains valid.
  const auto status = decode_node_message(R"({"type": "status", "value": [5, {"rank": 1}]})");
  REQUIRE(status);
  CHECK(std::get<StatusMessage>(*status).ranks.empty());
  // Of a newer version, or from the wrong side.
  CHECK_FALSE(decode_node_message(R"({"type": "hello"})"));
  CHECK_FALSE(decode_node_message(R"({"type": "stop"})"));
}

TEST_CASE("messages: a rank's status is decoded completely or not at all") {
  RankView view{.progress = {.rank = 1, .pid = 77, .step = 3, .total_steps = 9}, .host = "h"};
  view.progress.phase = Phase::Backward;
  view.progress.operation = "gradient all_reduce";
  view.progress.idle_s = 3.5;
  view.bucket = "a, b";
  view.stacks = "    training thread\n";
  const auto content = encode(StatusMessage{.ranks = {view}});
  const auto ranks_of = [](const std::string& text) {
    return std::get<StatusMessage>(decode_node_message(text).value()).ranks;
  };
  REQUIRE(ranks_of(content).size() == 1);
  CHECK(encode(StatusMessage{.ranks = ranks_of(content)}) == content);
  for (const char* phase : {"99", "\"x\""}) {
    auto broken = nlohmann::json::parse(content);
    broken["value"][0]["phase"] = nlohmann::json::parse(phase);
    CHECK(ranks_of(broken.dump()).empty());
  }
}

TEST_CASE("messages: a proof of another protocol version is distinguished from garbage") {
  const auto message =
      decode_node_message(R"({"type": "proof", "protocol": 2, "version": "9", "challenge": 5})");
  REQUIRE(message);
  const auto& proof = std::get<NodeProofMessage>(*message);
  CHECK(proof.protocol == 2);
  CHECK(proof.version == "9");
  CHECK(proof.challenge.empty());
}

TEST_CASE("messages: what a new coordinator needs") {
  JobState job{.key = "k", .version = 3, .num_claims = 1, .run_id = "run", .world_size = 2};
  job.nodes = {{.num_ranks = 1, .num_spares = 1, .address = "10.0.0.1", .port = 9, .label = "a"}};
  job.ranks = {0, -1};
  job.flags = {JobState::Alive, JobState::Lost | JobState::Replaced};
  job.starts = {0, 2};
  job.losses = {{1, "killed", true}};
  GroupState state{.job = job};
  const auto read = decode_coordinator_message(encode(CoordinatorMessage(state)));
  REQUIRE(read);
  CHECK(encode(*read) == encode(CoordinatorMessage(state)));
  JoinMessage join{.host = "h", .returning = ReturningNode{.node = 0, .job = job}};
  join.returning->events.push_back({.worker = 1, .request = {.step = 4}});
  join.returning->events.push_back(
      {.kind = GroupEvent::Kind::Started, .worker = 1, .num_starts = 2});
  join.returning->ended = EndedMessage{.leaves = true};
  const auto joined = decode_node_message(encode(join));
  REQUIRE(joined);
  CHECK(encode(*joined) == encode(join));
  const auto error_with = [&](const auto& change) {
    auto copy = join;
    change(copy.returning->job);
    return error_of_message(encode(copy));
  };
  const std::string inconsistent = "invalid message: the state of the job is inconsistent";
  CHECK(error_with([](JobState& changed) { changed.flags.pop_back(); }) == inconsistent);
  CHECK(error_with([](JobState& changed) { changed.starts.pop_back(); }) == inconsistent);
  CHECK(error_with([](JobState& changed) { changed.ranks[1] = 2; }) == inconsistent);
  CHECK(error_with([](JobState& changed) { changed.losses[0].rank = 2; }) == inconsistent);
  CHECK(error_with([](JobState& changed) { changed.group = INT64_MAX; }) ==
        "invalid message: 'group' is missing or invalid");
  CHECK(error_with([](JobState& changed) { changed.version = INT64_MAX; }) ==
        "invalid message: 'version' is missing or invalid");
}

}  // namespace lockstep::launch
