// Messages between the processes of a warm start, and what a worker compares before it is used.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "launch/environment/worker_env.h"
#include "launch/warm/process_message.h"
#include "launch/warm/warm_template.h"
#include "tests/launch/environment_guard.h"

namespace lockstep::launch {
namespace {

constexpr std::chrono::seconds kMessageLimit(10);

}  // namespace

TEST_CASE("warm start: a message has words, environment, numbers and descriptors") {
  const auto [ours, theirs] = connected_sockets();
  const std::string long_word(1 << 20, 'x');  // more than a socket holds
  const auto [sent, other] = connected_sockets();
  REQUIRE(send_message(ours.get(),
                       {.words = {"program", "", "a b\n", long_word},
                        .environment = {"NAME=value", "EMPTY="},
                        .numbers = {7, -1}},
                       {sent.get()}));
  REQUIRE(send_message(ours.get(), {}));  // messages do not run together
  const auto message = receive_message(theirs.get(), kMessageLimit);
  REQUIRE(message);
  CHECK(message->words == std::vector<std::string>{"program", "", "a b\n", long_word});
  CHECK(message->environment == std::vector<std::string>{"NAME=value", "EMPTY="});
  CHECK(message->numbers == std::vector<int>{7, -1});
  REQUIRE(message->fds.size() == 1);
  char byte = 0;
  REQUIRE(::write(message->fds[0].get(), "y", 1) == 1);
  CHECK(::read(other.get(), &byte, 1) == 1);
  CHECK(byte == 'y');
  const auto empty = receive_message(theirs.get(), kMessageLimit);
  REQUIRE(empty);
  CHECK((empty->words.empty() && empty->numbers.empty() && empty->fds.empty()));
}

TEST_CASE("warm start: no message from a closed end, and none in time") {
  auto [ours, theirs] = connected_sockets();
  CHECK_FALSE(receive_message(theirs.get(), std::chrono::milliseconds(0)));
  ours.close();
  CHECK_FALSE(receive_message(theirs.get(), kMessageLimit));
  CHECK_FALSE(send_message(theirs.get(), {.words = {"program"}}));
}

TEST_CASE("warm start: bytes that are not a message are refused") {
  const auto [ours, theirs] = connected_sockets();
  REQUIRE(::send(ours.get(), "x", 1, 0) == 1);  // without a file
  CHECK_FALSE(receive_message(theirs.get(), kMessageLimit));

  const FileDescriptor file(::memfd_create("garbage", MFD_CLOEXEC));
  const std::array<uint64_t, 3> counts = {0, 1, ~0ULL};  // a text longer than the file
  REQUIRE(::write(file.get(), counts.data(), sizeof counts) == sizeof counts);
  char byte = 0;
  iovec data = {.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  auto* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = file.get();
  std::ranges::copy_n(reinterpret_cast<const char*>(&fd), sizeof fd,
                      reinterpret_cast<char*>(CMSG_DATA(rights)));
  REQUIRE(::sendmsg(ours.get(), &header, 0) == 1);
  CHECK_FALSE(receive_message(theirs.get(), kMessageLimit));
}

TEST_CASE("warm start: a worker's environment is compared but for its place") {
  EnvironmentGuard guard({{"OMP_NUM_THREADS", "1"}});
  ::unsetenv("LD_LIBRARY_PATH");
  auto wanted = template_environment(1);
  ::clearenv();
  replace_environment(wanted);
  CHECK(has_template_environment(wanted));
  for (const char* entry : {"RANK=1", "MASTER_PORT=1234", "LD_LIBRARY_PATH="}) {
    wanted.emplace_back(entry);
    CHECK(has_template_environment(wanted));
  }
  guard.set("LD_LIBRARY_PATH", "/lib");
  CHECK_FALSE(has_template_environment(wanted));
  ::unsetenv("LD_LIBRARY_PATH");
  wanted.emplace_back("NCCL_DEBUG=INFO");
  CHECK_FALSE(has_template_environment(wanted));
}

TEST_CASE("warm start: without a template, nothing is started") {
  const ChildCommand launcher{.program = "true",
                              .arguments = {},
                              .environment = {},
                              .stdout_fd = STDOUT_FILENO,
                              .stderr_fd = STDERR_FILENO};
  for (const char* program : {"true", "a program that does not exist"}) {
    WarmTemplate warm(program, 1, "test");
    CHECK_FALSE(warm.start_launcher(launcher));
    CHECK_FALSE(warm.start_worker(launcher));
    CHECK_FALSE(warm.is_loading());
  }
}

}  // namespace lockstep::launch
