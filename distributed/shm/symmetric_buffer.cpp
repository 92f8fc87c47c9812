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

// Where other ranks find a rank's part, which begins with the token.
struct PartAddress {
  pid_t pid = 0;
  int fd = -1;  // -1: allocation failed
  std::array<uint64_t, 2> token{};
};

Segment make_part(size_t bytes, PartAddress& address) {
  try {
    auto part = Segment::create(bytes);
    part.prefault();
    const auto size = sizeof(address.token);
    if (::getrandom(address.token.data(), size, 0) != static_cast<ssize_t>(size)) return {};
    std::memcpy(part.data(), address.token.data(), size);
    address.pid = ::getpid();
    address.fd = part.fd();
    return part;
  } catch (const Error&) {
    return {};  // the caller falls back to the slots
  }
}

// Returns an empty segment if the part is missing or is not the one described.
Segment open_part(const PartAddress& address, size_t bytes) {
  if (address.fd < 0) return {};
  try {
    auto part = Segment::open(address.pid, address.fd, bytes);
    const bool same = std::memcmp(part.data(), address.token.data(), sizeof(address.token)) == 0;
    return same ? std::move(part) : Segment();
  } catch (const Error&) {
    return {};
  }
}

template <class T>
std::vector<T> all_gather_values(Group& group, T value, Clock::time_point deadline) {
  std::vector<T> all(static_cast<size_t>(group.num_ranks()));
  std::vector<std::byte*> out;
  for (auto& item : all) out.push_back(reinterpret_cast<std::byte*>(&item));
  group.all_gather({reinterpret_cast<std::byte*>(&value), sizeof(T), ElementType::Bytes}, out,
                   deadline);
  return all;
}

}  // namespace

SymmetricBuffer::SymmetricBuffer(std::vector<Segment> segments, int rank, uint64_t number)
    : segments_(std::move(segments)), rank_(rank), number_(number) {}

std::shared_ptr<SymmetricBuffer> SymmetricBuffers::make(Group& group, size_t bytes,
                                                        Clock::time_point deadline) {
  PartAddress address;
  std::vector<Segment> parts(static_cast<size_t>(group.num_ranks()));
  auto& own = parts[static_cast<size_t>(group.rank())];
  own = make_part(bytes, address);
  const auto addresses = all_gather_values(group, address, deadline);
  for (size_t rank = 0; rank < parts.size(); ++rank)
    if (&parts[rank] != &own) parts[rank] = open_part(addresses[rank], bytes);
  const auto is_mapped = [](const Segment& part) { return part.data() != nullptr; };
  const uint8_t has_all = std::all_of(parts.begin(), parts.end(), is_mapped) ? 1 : 0;
  const auto votes = all_gather_values(group, has_all, deadline);
  if (std::count(votes.begin(), votes.end(), 1) != group.num_ranks()) return nullptr;
  own.close_file();
  auto buffer = std::make_shared<SymmetricBuffer>(std::move(parts), group.rank(), ++num_made_);
  buffers_.push_back(buffer);
  return buffer;
}

std::shared_ptr<const SymmetricBuffer> SymmetricBuffers::find(const std::byte* data, size_t size) {
  std::erase_if(buffers_, [](const auto& buffer) { return buffer.expired(); });
  for (const auto& buffer : buffers_)
    if (auto alive = buffer.lock(); alive && alive->contains(data, size)) return alive;
  return nullptr;
}

}  // namespace lockstep::distributed::shm
