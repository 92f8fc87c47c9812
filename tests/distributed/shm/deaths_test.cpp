// Ranks that are killed, stopped or leave. Real processes: the segment is created first, then the
// ranks are forked.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "distributed/shm/group_windows.h"
#include "tests/distributed/shm/host_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;
using namespace lockstep::distributed::shm;

namespace {

// A forked rank: runs `body` and writes its result to a pipe.
class RankProcess {
 public:
  template <class Body>
  explicit RankProcess(const Body& body) {
    int ends[2];
    if (::pipe(ends) != 0) throw errno_error("pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      const std::string result = body();
      const bool written = ::write(ends[1], result.data(), result.size()) >= 0;
      ::_exit(written ? 0 : 1);
    }
    ::close(ends[1]);
    output_ = FileDescriptor(ends[0]);
  }
  ~RankProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void send(int signal) const { ::kill(pid_, signal); }

  // The result of `body`; "no result" after 60 s, "" if the process exited without a result.
  std::string result() const {
    pollfd readable{.fd = output_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, 60'000) != 1) return "no result";
    char text[512];
    const auto size = ::read(output_.get(), text, sizeof(text));
    return {text, text + std::max<ssize_t>(size, 0)};
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor output_;
};

// Creates a group of two from `segment` in this process. Returns "fine", or the error of `body`.
template <class Body>
std::string as_rank(const Segment& segment, int rank, const Body& body) {
  try {
    auto own = Segment::open(::getpid(), segment.fd(), segment.bytes());
    auto* const states = rank_states_of(own);
    states[rank].pid.store(::getpid());
    for (int other = 0; other < 2; ++other)  // until both have published their pid
      while (states[other].pid.load() == 0) ::sched_yield();
    Group group(std::move(own), rank, 2);
    body(group);
    return "fine";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void all_reduce_forever(Group& group) {
  std::vector<float> values(200'000, 1);
  for (;;)
    group.all_reduce(
        {reinterpret_cast<std::byte*>(values.data()), values.size(), ElementType::Float32},
        Reduction::Max, soon());
}

void all_reduce_in_buffer_forever(Group& group) {
  const auto buffer = group.allocate(size_t{4} << 20, soon());
  check(buffer != nullptr, "cannot allocate a symmetric buffer");
  for (;;)
    group.all_reduce({buffer->data(), size_t{1} << 20, ElementType::Float32}, Reduction::Max,
                     soon());
}

}  // namespace

TEST_CASE("peers: a process that was gone before the group was formed has ended") {
  const auto child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const Peers peers({::getpid(), child});
  CHECK_FALSE(peers.has_ended(0));
  CHECK(peers.has_ended(1));
}

TEST_CASE("deaths: a rank killed during an in-place reduction is detected, and no memory is left") {
  const auto segment = Segment::create(Group::segment_bytes(2));
  const RankProcess survivor([&] { return as_rank(segment, 0, all_reduce_in_buffer_forever); });
  const RankProcess victim([&] { return as_rank(segment, 1, all_reduce_in_buffer_forever); });
  const auto& arrived = rank_states_of(segment)[1].arrived;
  while (arrived.load() < 100) ::sched_yield();
  victim.send(SIGKILL);
  CHECK_THAT(survivor.result(), Catch::StartsWith("rank 1 (process "));
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.is_regular_file())  // as every segment is
      CHECK_THAT(entry.path().string(), !Catch::Contains("lockstep"));
}

TEST_CASE("deaths: a rank killed during a collective is detected within a second") {
  auto best = Clock::duration::max();
  for (int i = 0; i < 5 && best > std::chrono::seconds(1); ++i) {  // retries on a busy machine
    const auto segment = Segment::create(Group::segment_bytes(2));
    const RankProcess survivor([&] { return as_rank(segment, 0, all_reduce_forever); });
    const RankProcess victim([&] { return as_rank(segment, 1, all_reduce_forever); });
    const auto& arrived = rank_states_of(segment)[1].arrived;
    while (arrived.load() < 20) ::sched_yield();
    const auto begin = Clock::now();
    victim.send(SIGKILL);
    CHECK_THAT(survivor.result(),
               Catch::StartsWith("rank 1 (process ") && Catch::EndsWith(") is gone"));
    best = std::min(best, Clock::now() - begin);
  }
  CHECK(best < std::chrono::seconds(1));
}

TEST_CASE("deaths: a stopped rank is a timeout that names it") {
  const auto segment = Segment::create(Group::segment_bytes(2));
  const RankProcess stopped([&] { return as_rank(segment, 1, all_reduce_forever); });
  const RankProcess waiting([&] {
    return as_rank(segment, 0, [&](Group& group) {
      group.barrier(soon());  // mismatches an all_reduce: ensures that rank 1 has started
    });
  });
  CHECK_THAT(waiting.result(), Catch::Contains("rank 0 called barrier, rank 1 called all_reduce"));
  const auto other = Segment::create(Group::segment_bytes(2));
  const RankProcess asleep([&] { return as_rank(other, 1, [](Group&) { ::raise(SIGSTOP); }); });
  const RankProcess patient([&] {
    return as_rank(other, 0,
                   [](Group& group) { group.barrier(within(std::chrono::milliseconds(300))); });
  });
  CHECK(patient.result() == "Timed out waiting for rank 1");
}

TEST_CASE("deaths: a rank that leaves cleanly is detected immediately") {
  InMemoryStore store;
  const auto errors = run_threads(2, [&](int rank) {
    const auto found = discover_host_group(store, {.rank = rank, .num_ranks = 2});
    found.group->barrier(soon());
    if (rank == 1) found.group->barrier(soon());
  });
  CHECK_FALSE(errors[0]);
  CHECK(text_of(errors[1]) == "rank 0 has left the group");
}

TEST_CASE("deaths: two ranks make progress while three processes occupy their cores") {
  const auto spin = [] {
    std::atomic<uint64_t> turns = 0;
    while (++turns != 0) continue;
    return std::string();
  };
  const RankProcess first(spin), second(spin), third(spin);
  const auto begin = Clock::now();
  run_group(2, [&](Group& group) {
    std::vector<float> values(1000, 1);
    for (int i = 0; i < 2000; ++i)
      group.all_reduce(
          {reinterpret_cast<std::byte*>(values.data()), values.size(), ElementType::Float32},
          Reduction::Max, soon());
  });
  CHECK(Clock::now() - begin < std::chrono::seconds(15));
}
