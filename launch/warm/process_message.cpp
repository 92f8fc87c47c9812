#include "launch/warm/process_message.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/system/full_io.h"
#include "core/system/poll_set.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr size_t kMaxFds = 64;
using Texts = std::vector<std::string>;

void append(std::string& bytes, uint64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append(std::string& bytes, const Texts& texts) {
  append(bytes, texts.size());
  for (const auto& text : texts) {
    append(bytes, text.size());
    bytes += text;
  }
}

// Reads what append() wrote. Throws if it is cut off.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : bytes_(bytes) {}

  Texts texts() {
    Texts all;
    for (auto count = number(); count > 0; --count) all.emplace_back(take(number()));
    return all;
  }

  uint64_t number() {
    uint64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

 private:
  std::string_view take(uint64_t size) {
    if (size > bytes_.size()) throw environment_error("a message of a warm start is cut off");
    const auto taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
};

std::optional<ProcessMessage> decode(std::string_view bytes, std::vector<FileDescriptor> fds) {
  try {
    MessageReader reader(bytes);
    ProcessMessage message{.kind = static_cast<ProcessMessage::Kind>(reader.number()),
                           .words = reader.texts(),
                           .environment = reader.texts()};
    for (const auto& number : reader.texts()) message.numbers.push_back(std::stoi(number));
    message.fds = std::move(fds);
    return message;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// One byte, which a message needs, with room for descriptors.
struct FdsMessage {
  FdsMessage() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  FdsMessage(const FdsMessage&) = delete;
  FdsMessage& operator=(const FdsMessage&) = delete;

  char byte = 0;
  iovec data = {.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  msghdr header{};
};

// The text is in a file in memory, since a socket's messages are limited in size; `all`: this file,
// and the descriptors.
bool send_fds(int socket, const std::vector<int>& all) {
  FdsMessage message;
  auto& header = message.header;
  header.msg_controllen = CMSG_SPACE(all.size() * sizeof(int));
  auto* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(all.size() * sizeof(int));
  std::memcpy(CMSG_DATA(rights), all.data(), all.size() * sizeof(int));
  ssize_t sent = 0;
  while ((sent = ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR) {
  }
  return sent == 1;
}

std::vector<FileDescriptor> receive_fds(int socket) {
  FdsMessage message;
  auto& header = message.header;
  ssize_t got = 0;
  while ((got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  std::vector<FileDescriptor> fds;
  if (got != 1) return fds;
  for (auto* part = CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const auto count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

std::pair<FileDescriptor, FileDescriptor> connected_sockets() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw errno_error("cannot create a socket");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

bool send_message(int socket, const ProcessMessage& message, const std::vector<int>& fds) {
  std::string bytes;
  append(bytes, static_cast<uint64_t>(message.kind));
  append(bytes, message.words);
  append(bytes, message.environment);
  Texts numbers;
  for (const int number : message.numbers) numbers.push_back(std::to_string(number));
  append(bytes, numbers);
  const FileDescriptor text(::memfd_create("lockstep-start", MFD_CLOEXEC));
  if (!text.is_open() || fds.size() >= kMaxFds || !write_all(text.get(), bytes)) return false;
  std::vector<int> all = {text.get()};
  all.insert(all.end(), fds.begin(), fds.end());
  return send_fds(socket, all);
}

std::optional<ProcessMessage> receive_message(int socket,
                                              std::optional<std::chrono::milliseconds> timeout) {
  pollfd request = {.fd = socket, .events = POLLIN, .revents = 0};
  std::optional<std::chrono::steady_clock::time_point> deadline;
  if (timeout) deadline = std::chrono::steady_clock::now() + *timeout;
  if (poll_until({&request, 1}, deadline) != 1) return std::nullopt;
  auto fds = receive_fds(socket);
  struct stat status {};
  if (fds.empty() || ::fstat(fds.front().get(), &status) != 0) return std::nullopt;
  const auto bytes = read_text_at(fds.front().get(), static_cast<size_t>(status.st_size), 0);
  if (!bytes) return std::nullopt;
  fds.erase(fds.begin());
  return decode(*bytes, std::move(fds));
}

}  // namespace lockstep::launch
