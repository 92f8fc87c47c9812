#include "distributed/shm/symmetric_buffer.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "distributed/shm/group.h"
#include "lockstep/error.h"

namespace lockstep::distributed::shm {
namespace {

// Where a rank's part is, for the others; it begins with the token.
struct PartAddress {
  pid_t pid = 0;
  int fd = -1;  // none: it could not be made
  std::array<uint64_t, 2> token{};
};

Segment make_part(size_t bytes, PartAddress& address) {
  try {
    auto part = Segment::create(bytes);
    part.touch_all();
    const auto size = sizeof(address.token);
    if (::getrandom(address.token.data(), size, 0) != static_cast<ssize_t>(size)) return {};
    std::memcpy(part.data(), address.token.data(), size);
    address.pid = ::getpid();
    address.fd = part.fd();
    return part;
  } catch (const Error&) {
    return {};  // the caller has another way
  }
}

// Nothing: it is not there.
Segment open_part(const PartAddress& address, size_t bytes) {
  if (address.fd < 0) return {};
  try {
    auto part = Segment::open(address.pid, address.fd, bytes);
    const bool is_it = std::memcmp(part.data(), address.token.data(), sizeof(address.token)) == 0;
    return is_it ? std::move(part) : Segment();
  } catch (const Error&) {
    return {};
  }
}

template <class T>
std::vector<T> gather_from_all(Group& group, T mine, Clock::time_point deadline) {
  std::vector<T> all(static_cast<size_t>(group.num_ranks()));
  std::vector<std::byte*> out;
  for (auto& item : all) out.push_back(reinterpret_cast<std::byte*>(&item));
  group.all_gather({reinterpret_cast<std::byte*>(&mine), sizeof(T), ElementType::Bytes}, out,
                   deadline);
  return all;
}

}  // namespace

SymmetricBuffer::SymmetricBuffer(std::vector<Segment> segments, int rank, uint64_t number)
    : segments_(std::move(segments)), rank_(rank), number_(number) {}

std::shared_ptr<SymmetricBuffer> SymmetricBuffers::make(Group& group, size_t bytes, Clock::time_point deadline) {
  PartAddress mine;
  std::vector<Segment> parts(static_cast<size_t>(group.num_ranks()));
  auto& own = parts[static_cast<size_t>(group.rank())];
  own = make_part(bytes, mine);
  const auto addresses = gather_from_all(group, mine, deadline);
  for (size_t rank = 0; rank < parts.size(); ++rank)
    if (&parts[rank] != &own) parts[rank] = open_part(addresses[rank], bytes);
  const auto is_there = [](const Segment& part) { return part.data() != nullptr; };
  const uint8_t has_all = std::all_of(parts.begin(), parts.end(), is_there) ? 1 : 0;
  const auto answers = gather_from_all(group, has_all, deadline);
  if (std::count(answers.begin(), answers.end(), 1) != group.num_ranks()) return nullptr;
  own.close_file();
  auto buffer = std::make_shared<SymmetricBuffer>(std::move(parts), group.rank(), ++num_made_);
  symmetric_buffers_.push_back(buffer);
  return buffer;
}

std::shared_ptr<const SymmetricBuffer> SymmetricBuffers::find(const std::byte* data, size_t size) {
  std::erase_if(symmetric_buffers_, [](const auto& buffer) { return buffer.expired(); });
  for (const auto& buffer : symmetric_buffers_)
    if (auto alive = buffer.lock(); alive && alive->holds(data, size)) return alive;
  return nullptr;
}

}  // namespace lockstep::distributed::shm
