#include "launch/workers/group_member.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <thread>

#include "launch/protocol/address.h"
#include "launch/workers/group_links.h"

using namespace lockstep;
using namespace lockstep::launch;

namespace {

using Kind = GroupAnswer::Kind;

// The launcher's end of the connection of a worker.
class Link {
 public:
  Link() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) == 0);
    launcher_ = FileDescriptor(ends[0]);
    worker_ = FileDescriptor(ends[1]);
  }
  int take_worker_end() { return worker_.release(); }
  void send(const GroupAnswer& answer) const {
    const auto text = encode(answer);
    REQUIRE(::send(launcher_.get(), text.data(), text.size(), 0) == std::ssize(text));
  }
  // Empty: there is none.
  std::string next_request() const {
    std::array<char, 64> text{};
    const auto bytes = ::recv(launcher_.get(), text.data(), text.size(), MSG_DONTWAIT);
    return {text.data(), static_cast<size_t>(std::max<ssize_t>(bytes, 0))};
  }

 private:
  FileDescriptor launcher_, worker_;
};

}  // namespace

TEST_CASE("group member: a worker asks to end before each answer that it waits for") {
  std::array<int, 2> quit{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, quit.data()) == 0);
  const FileDescriptor quit_reader(quit[0]), quit_writer(quit[1]);
  Link link;
  GroupMember member(link.take_worker_end());
  member.quit_when_readable(quit_reader.get());
  REQUIRE(::send(quit_writer.get(), "", 1, 0) == 1);
  link.send({.kind = Kind::Wait});
  CHECK(member.ask({GroupRequest::Kind::Broken, 7}, std::nullopt).kind == Kind::Wait);
  CHECK(link.next_request().starts_with("broken 7 "));
  CHECK(link.next_request().empty());  // it has a place in its group
  for (const auto kind : {Kind::Wait, Kind::End}) link.send({.kind = kind});
  CHECK(member.wait().kind == Kind::End);
  for (int i = 0; i < 2; ++i) CHECK(link.next_request() == "quitting -1 0 0 0 0");
  CHECK(link.next_request().empty());
}

TEST_CASE("group member: a rank is invited to a larger group, unless it has left its own") {
  Link link;
  GroupMember member(link.take_worker_end());
  CHECK_FALSE(member.take_invitation());
  link.send({.kind = Kind::Invited});
  CHECK(member.take_invitation());
  CHECK_FALSE(member.take_invitation());
  link.send({.kind = Kind::Invited});
  link.send({.kind = Kind::Join, .group = 3});
  CHECK(member.ask({GroupRequest::Kind::Broken, 7}, std::nullopt).group == 3);
}

TEST_CASE("group member: a worker listens at the address of its node only") {
  Link link;
  GroupMember member(link.take_worker_end(), "127.0.0.2");
  link.send({.kind = Kind::Wait});
  CHECK(member.ask({GroupRequest::Kind::Broken, 7}, std::nullopt).kind == Kind::Wait);
  const auto request = decode_group_request(link.next_request());
  REQUIRE(request);
  CHECK(try_listen(resolve("127.0.0.2", request->port).front()).reason == EADDRINUSE);
  CHECK(try_listen(resolve("127.0.0.3", request->port).front()).fd);
}

TEST_CASE("group member: the answer after the loss of a large node") {
  Link link;
  GroupMember member(link.take_worker_end());
  GroupAnswer answer{.kind = Kind::Join, .loss = {.before = 1600, .ranks = {}, .spares = {}}};
  for (int rank = 0; rank < 1500; ++rank)
    answer.loss.ranks.push_back({rank, rank < 2 ? "killed by SIGKILL" : "with b: no message"});
  CHECK(encode(answer).size() < 64u << 10);  // the limit of texts between nodes
  link.send(answer);
  const auto received = member.wait();
  CHECK(received.kind == Kind::Join);
  CHECK(lost_text(received.loss) == lost_text(answer.loss));
}

TEST_CASE("loss watch: a loss counts until its group is left, one of an earlier group does not") {
  // As GroupLinks writes it.
  const FileDescriptor losses(::eventfd(0, EFD_NONBLOCK));
  const auto lose = [&](uint64_t groups) {
    REQUIRE(::write(losses.get(), &groups, sizeof groups) == sizeof groups);
  };
  std::atomic<int> calls = 0;
  const auto wait_for_calls = [&](int more) {
    for (const int last = calls + more; calls < last;) std::this_thread::yield();
  };
  LossWatch watch(losses.get(), [&] { ++calls; });
  lose(1);  // of group 0, the first
  wait_for_calls(3);
  watch.leave();
  watch.enter(1);
  lose(2);  // of groups 1 and 2: the news of group 2 arrives early
  wait_for_calls(2);
  watch.leave();
  watch.enter(2);
  wait_for_calls(2);
  watch.leave();
  const int last = calls;
  for (int i = 0; i < 1000; ++i) watch.enter(3);  // each wakes the watcher
  CHECK(calls == last);
  lose(1);  // of group 3
  wait_for_calls(2);
}

TEST_CASE("group links: losses are reported by the number of their group") {
  GroupLinks links({.num_nodes = 2}, 1, 0);
  const auto report = [&](int64_t group) {
    links.handle(
        {.answers = {{0, {.kind = Kind::Lost, .group = group}}}, .ranks = {0}, .replaced = {}});
    uint64_t count = 0;
    return ::read(links.loss_fd(0), &count, sizeof count) == sizeof count ? count : 0;
  };
  CHECK(report(0) == 1);
  CHECK(report(0) == 0);  // group 0 again
  CHECK(report(3) == 3);
  CHECK(report(1) == 0);
}

TEST_CASE("group links: overdue workers") {
  GroupLinks links({}, 2, 0);
  links.handle({.answers = {{1, {.kind = Kind::Overdue}}}, .ranks = {0, 1}, .replaced = {}});
  CHECK(links.take_overdue() == std::vector{1});
  CHECK(links.take_overdue().empty());
}

TEST_CASE("group links: what another coordinator must know") {
  using Request = GroupRequest::Kind;
  GroupLinks links({.num_nodes = 2}, 1, 1);
  const auto worker = links.take_worker_end(1);
  const auto ask = [&](Request kind) {
    const auto text = encode({kind, kNoState, 4000});
    REQUIRE(::send(worker.get(), text.data(), text.size(), 0) > 0);
    PollSet polls;
    links.watch(polls);
    polls.wait();
    links.update();
  };
  const auto known = [&] {
    std::vector<Request> kinds;
    for (const auto& event : links.all_events()) kinds.push_back(event.request.kind);
    return kinds;
  };
  ask(Request::Broken);
  CHECK(known() == std::vector{Request::Broken});
  ask(Request::Quitting);
  CHECK(known() == std::vector{Request::Broken, Request::Quitting});
  links.handle({.answers = {{1, {.kind = Kind::Join}}}, .ranks = {-1, 0}, .replaced = {}});
  CHECK(known().empty());
  ask(Request::Quitting);  // sent before it got its place
  CHECK(known().empty());
  CHECK_FALSE(links.asks_to_leave(1));
  for (const auto kind : {Request::Leaving, Request::Replaced, Request::Excluded}) {
    ask(kind);
    CHECK(links.asks_to_leave(1));
    links.handle({.answers = {{1, {.kind = Kind::Refused}}}, .ranks = {-1, 0}, .replaced = {}});
    CHECK_FALSE(links.asks_to_leave(1));
  }
}

TEST_CASE("group links: nothing that was sent before a worker was started again concerns it") {
  GroupLinks links({.num_nodes = 2, .world_size = 2}, 2, 0);
  const auto first = links.take_worker_end(1);
  links.handle({.answers = {}, .world_size = 1, .ranks = {0, -1}, .replaced = {1}});
  CHECK(links.is_replaced(1));
  links.take_events();
  links.start_again(1);
  CHECK_FALSE(links.is_replaced(1));
  const auto events = links.take_events();
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == GroupEvent::Kind::Started);
  CHECK(events[0].num_starts == 1);
  CHECK(links.all_events().front().num_starts == 1);
  const auto worker = links.take_worker_end(1);
  std::array<char, 512> text{};
  const auto has_answer = [&] {
    return ::recv(worker.get(), text.data(), text.size(), MSG_DONTWAIT) > 0;
  };
  GroupState state{.answers = {{1, {.kind = Kind::End}}}, .ranks = {0, 1}, .replaced = {1}};
  links.handle(state);
  CHECK_FALSE(has_answer());
  CHECK_FALSE(links.is_replaced(1));
  CHECK_FALSE(links.is_dismissed(1));
  CHECK_FALSE(links.rank_of(1));
  state.starts = {0, 1};
  links.handle(state);
  CHECK(has_answer());
  CHECK(links.is_replaced(1));
  CHECK(links.is_dismissed(1));
  CHECK(links.rank_of(1) == 1);
}

TEST_CASE("group messages: requests are decoded") {
  const auto decoded = decode_group_request(encode({GroupRequest::Kind::Replaced, 7, 4000, 2.5}));
  REQUIRE(decoded);
  CHECK(decoded->kind == GroupRequest::Kind::Replaced);
  CHECK(decoded->step == 7);
  CHECK(decoded->port == 4000);
  CHECK(decoded->slowness == 2.5);
  CHECK(decoded->patience_ms == 0);
  const auto patient =
      decode_group_request(encode({GroupRequest::Kind::Broken, 7, 4000, 0, 600000}));
  REQUIRE(patient);
  CHECK(patient->patience_ms == 600000);
  const auto joining = decode_group_request(encode({.inputs = 4294967295}));
  REQUIRE(joining);
  CHECK(joining->inputs == 4294967295);
  for (const auto* wrong :
       {"", "7", "leaving", "leaving x", "leave 7 1 0 0 0", "leaving 7 1 0 0",
        "leaving 7 1 0 0 0 x", "leaving 7 70000 0 0 0", "replaced 7 1 nan 0 0",
        "replaced 7 1 inf 0 0", "replaced 7 1 -2 0 0", "leaving 7 1 0 -1 0", "leaving 7 1 0 2 3 4",
        "leaving 7 1 0 2 3x", "leaving 7 1 0 2 -1", "leaving 7 1 0 2 4294967296"})
    CHECK_FALSE(decode_group_request(wrong));
}

TEST_CASE("group messages: answers are decoded") {
  const GroupAnswer answer{
      .kind = Kind::Join,
      .group = 6,
      .rank = 3,
      .world_size = 4,
      .local_rank = 1,
      .local_world_size = 2,
      .host = "10.0.0.2",
      .port = 4000,
      .loss = {.step = 7, .before = 5, .after = 4, .ranks = {{1, "killed\xff"}}, .spares = {5}}};
  const auto decoded = decode_group_answer(encode(answer));
  CHECK(decoded.kind == Kind::Join);
  CHECK(decoded.group == 6);
  CHECK(decoded.rank == 3);
  CHECK(decoded.world_size == 4);
  CHECK(decoded.local_rank == 1);
  CHECK(decoded.local_world_size == 2);
  CHECK(decoded.host == "10.0.0.2");
  CHECK(decoded.port == 4000);
  CHECK(decoded.loss.step == 7);
  CHECK(decoded.loss.spares == std::vector{5});
  CHECK(lost_text(decoded.loss).starts_with("rank 1 (of 5) was lost, killed"));
  for (const auto* wrong : {"", "{}", "[]", R"({"answer":"leave"})"})
    CHECK(decode_group_answer(wrong).kind == Kind::Refused);
}
