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

// Writes the address and marks `part` with its token.
bool publish_part(const Segment& part, PartAddress& address) {
  const auto size = sizeof(address.token);
  if (::getrandom(address.token.data(), size, 0) != static_cast<ssize_t>(size)) return false;
  std::memcpy(part.data(), address.token.data(), size);
  address.pid = ::getpid();
  address.fd = part.fd();
  return true;
}

Segment make_part(size_t bytes, PartAddress& address) {
  try {
    auto part = Segment::create(bytes);
    part.prefault();
    return publish_part(part, address) ? std::move(part) : Segment();
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

// Whether `has_it` on every rank.
bool is_unanimous(Group& group, bool has_it, Clock::time_point deadline) {
  const auto votes = all_gather_values(group, static_cast<uint8_t>(has_it), deadline);
  return std::count(votes.begin(), votes.end(), 1) == group.num_ranks();
}

Segment make_sparse(size_t bytes, PartAddress& address) {
  try {
    auto whole = Segment::create_sparse(bytes);
    whole.reserve(0, std::min(bytes, kFirstPartBytes));
    return publish_part(whole, address) ? std::move(whole) : Segment();
  } catch (const Error&) {
    return {};
  }
}

// Collective. `parts`: with this rank's, which `address` describes: opens those of the others. Returns
// false on every rank if one is missing.
bool open_others(Group& group, const PartAddress& address, std::vector<Segment>& parts,
                 Clock::time_point deadline) {
  const auto& own = parts[static_cast<size_t>(group.rank())];
  const auto addresses = all_gather_values(group, address, deadline);
  for (size_t rank = 0; rank < parts.size(); ++rank)
    if (&parts[rank] != &own) parts[rank] = open_part(addresses[rank], own.bytes());
  const auto is_mapped = [](const Segment& part) { return part.data() != nullptr; };
  return is_unanimous(group, std::all_of(parts.begin(), parts.end(), is_mapped), deadline);
}

// Reserves and faults in this rank's chunk. Returns false when memory is insufficient.
bool reserve_chunk(const Segment& whole, const Group& group) {
  if (whole.data() == nullptr) return false;
  const auto num_ranks = static_cast<size_t>(group.num_ranks());
  const auto rank = static_cast<size_t>(group.rank());
  const auto begin = whole.bytes() / num_ranks * rank;
  const auto end = rank + 1 == num_ranks ? whole.bytes() : whole.bytes() / num_ranks * (rank + 1);
  try {
    whole.reserve(begin, end - begin);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

SymmetricBuffer::SymmetricBuffer(std::vector<Segment> segments, int rank, uint64_t number)
    : segments_(std::move(segments)), rank_(rank), number_(number) {}

std::shared_ptr<SymmetricBuffer> SymmetricBuffers::make(Group& group, size_t bytes,
                                                        Clock::time_point deadline) {
  PartAddress address;
  std::vector<Segment> parts(static_cast<size_t>(group.num_ranks()));
  parts[static_cast<size_t>(group.rank())] = make_part(bytes, address);
  if (!open_others(group, address, parts, deadline)) return nullptr;
  for (auto& part : parts) part.close_file();
  auto buffer = std::make_shared<SymmetricBuffer>(std::move(parts), group.rank(), ++num_made_);
  buffers_.push_back(buffer);
  return buffer;
}

std::shared_ptr<const Segment> allocate_per_host(Group& group, size_t bytes,
                                                 Clock::time_point deadline) {
  PartAddress address;
  Segment whole;
  if (group.rank() == 0) whole = make_sparse(bytes, address);
  address = all_gather_values(group, address, deadline).front();
  if (group.rank() != 0) whole = open_part(address, bytes);
  const bool has_it = is_unanimous(group, reserve_chunk(whole, group), deadline);
  if (!has_it) return nullptr;
  if (group.rank() == 0) std::memset(whole.data(), 0, sizeof(address.token));
  group.barrier(deadline);  // the token is gone
  whole.close_file();
  return std::make_shared<const Segment>(std::move(whole));
}

std::vector<Segment> make_sparse_parts(Group& group, size_t bytes, Clock::time_point deadline) {
  PartAddress address;
  std::vector<Segment> parts(static_cast<size_t>(group.num_ranks()));
  auto& own = parts[static_cast<size_t>(group.rank())];
  own = make_sparse(bytes, address);
  if (!open_others(group, address, parts, deadline)) return {};
  for (auto& part : parts)
    if (&part != &own) part.close_file();
  return parts;
}

std::shared_ptr<const SymmetricBuffer> SymmetricBuffers::find(const std::byte* data, size_t size) {
  std::erase_if(buffers_, [](const auto& buffer) { return buffer.expired(); });
  for (const auto& buffer : buffers_)
    if (auto alive = buffer.lock(); alive && alive->contains(data, size)) return alive;
  return nullptr;
}

}  // namespace lockstep::distributed::shm
