// Ranks that end, stop or leave. Real processes: the group is made first, then forked into them.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/distributed/shm/host_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;
using namespace lockstep::distributed::shm;

namespace {

// A forked rank: runs `body` and answers with a line through a pipe.
class RankProcess {
 public:
  template <class Body>
  explicit RankProcess(const Body& body) {
    int ends[2];
    if (::pipe(ends) != 0) throw errno_error("pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      const std::string answer = body();
      const bool written = ::write(ends[1], answer.data(), answer.size()) >= 0;
      ::_exit(written ? 0 : 1);
    }
    ::close(ends[1]);
    answer_ = FileDescriptor(ends[0]);
  }
  ~RankProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void send(int signal) const { ::kill(pid_, signal); }

  // What it said; "no answer" after 20 s, "" when it ended without a word.
  std::string answer() const {
    pollfd readable{.fd = answer_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, 60'000) != 1) return "no answer";
    char text[512];
    const auto size = ::read(answer_.get(), text, sizeof(text));
    return {text, text + std::max<ssize_t>(size, 0)};
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor answer_;
};

// Makes `segment` a group in this process and returns how it went wrong, or "".
template <class Body>
std::string as_rank(const Segment& segment, int rank, const Body& body) {
  try {
    auto own = Segment::open(::getpid(), segment.fd(), segment.bytes());
    auto* const lines = lines_of(own);
    lines[rank].pid.store(::getpid());
    for (int other = 0; other < 2; ++other)  // until both have signed in
      while (lines[other].pid.load() == 0) ::sched_yield();
    Group group(std::move(own), rank, 2);
    body(group);
    return "fine";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void work_for_ever(Group& group) {
  std::vector<float> values(200'000, 1);
  for (;;)
    group.all_reduce(
        {reinterpret_cast<std::byte*>(values.data()), values.size(), ElementType::Float32},
        Reduction::Max, soon());
}

void work_in_a_region_for_ever(Group& group) {
  const auto buffer = group.allocate(size_t{4} << 20, soon());
  check(buffer != nullptr, "processes of one user map each other's memory");
  for (;;)
    group.all_reduce({buffer->data(), size_t{1} << 20, ElementType::Float32}, Reduction::Max,
                     soon());
}

}  // namespace

TEST_CASE(
    "deaths: a rank killed while arrays are reduced in place is noticed, and leaves nothing") {
  const auto segment = Segment::create(Group::segment_bytes(2));
  const RankProcess survivor([&] { return as_rank(segment, 0, work_in_a_region_for_ever); });
  const RankProcess victim([&] { return as_rank(segment, 1, work_in_a_region_for_ever); });
  const auto& arrived = lines_of(segment)[1].arrived;
  while (arrived.load() < 100) ::sched_yield();
  victim.send(SIGKILL);
  CHECK_THAT(survivor.answer(), Catch::StartsWith("rank 1 (process "));
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.is_regular_file())  // as every segment is
      CHECK_THAT(entry.path().string(), !Catch::Contains("lockstep"));
}

TEST_CASE("deaths: a rank killed within a collective is noticed within a second") {
  auto best = Clock::duration::max();
  for (int i = 0; i < 5 && best > std::chrono::seconds(1); ++i) {  // again if the machine was busy
    const auto segment = Segment::create(Group::segment_bytes(2));
    const RankProcess survivor([&] { return as_rank(segment, 0, work_for_ever); });
    const RankProcess victim([&] { return as_rank(segment, 1, work_for_ever); });
    const auto& arrived = lines_of(segment)[1].arrived;
    while (arrived.load() < 20) ::sched_yield();
    const auto begin = Clock::now();
    victim.send(SIGKILL);
    CHECK_THAT(survivor.answer(),
               Catch::StartsWith("rank 1 (process ") && Catch::EndsWith(") is gone"));
    best = std::min(best, Clock::now() - begin);
  }
  CHECK(best < std::chrono::seconds(1));
}

TEST_CASE("deaths: a stopped rank is a timeout that names it") {
  const auto segment = Segment::create(Group::segment_bytes(2));
  const RankProcess stopped([&] { return as_rank(segment, 1, work_for_ever); });
  const RankProcess waiting([&] {
    return as_rank(segment, 0, [&](Group& group) {
      group.barrier(soon());  // compared with an all_reduce: only to be sure that rank 1 has begun
    });
  });
  CHECK_THAT(waiting.answer(), Catch::Contains("rank 0 calls barrier, rank 1 calls all_reduce"));
  const auto other = Segment::create(Group::segment_bytes(2));
  const RankProcess asleep([&] { return as_rank(other, 1, [](Group&) { ::raise(SIGSTOP); }); });
  const RankProcess patient([&] {
    return as_rank(other, 0,
                   [](Group& group) { group.barrier(within(std::chrono::milliseconds(300))); });
  });
  CHECK(patient.answer() == "Timed out waiting for rank 1");
}

TEST_CASE("deaths: a rank that leaves in order is noticed at once") {
  LocalBoard board;
  const auto errors = run_threads(2, [&](int rank) {
    const auto meeting = meet(board, {.rank = rank, .num_ranks = 2});
    meeting.group->barrier(soon());
    if (rank == 1) meeting.group->barrier(soon());
  });
  CHECK_FALSE(errors[0]);
  CHECK(text_of(errors[1]) == "rank 0 has left the group");
}

TEST_CASE("deaths: three busy processes on the cores of two ranks do not stop them") {
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
