#include "distributed/shm/group.h"
#include "distributed/shm/group_windows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "distributed/shm/copying.h"
#include "distributed/shm/reduction.h"
#include "lockstep/error.h"

namespace lockstep::distributed::shm {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kLine = 64;
// Up to these limits, every rank reducing everything is faster than a slice per rank with a second
// barrier.
constexpr int kMaxOnePassRanks = 3;
constexpr size_t kMaxOnePassBytes = 16 << 10;
// Minimum for which checking whether the array is in a symmetric buffer pays off.
constexpr size_t kMinInPlaceBytes = 256 << 10;
// Blocks that are reduced, then copied to the other ranks: they stay in the L1 cache.
constexpr size_t kBlockBytes = 8 << 10;
// Minimum for which non-temporal stores make a difference; size and number of the trials.
constexpr size_t kMinNontemporalBytes = 32 << 10, kTrialBytes = 64 << 10;
constexpr int kTrials = 16;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t front_bytes(int num_ranks) {
  return round_up(sizeof(SegmentHeader) + static_cast<size_t>(num_ranks) * sizeof(RankState),
                  kPage);
}

}  // namespace

SegmentHeader& header_of(const Segment& segment) {
  return *reinterpret_cast<SegmentHeader*>(segment.data());
}

RankState* rank_states_of(const Segment& segment) {
  return reinterpret_cast<RankState*>(segment.data() + sizeof(SegmentHeader));
}

size_t Group::default_slot_bytes(int num_ranks) {
  constexpr size_t kMaxBytes = size_t{1} << 20, kMaxTotal = size_t{64} << 20, kMinPerRank = 256;
  const auto ranks = static_cast<size_t>(num_ranks);
  return std::max(std::min(kMaxBytes, kMaxTotal / (2 * ranks)) / kPage * kPage,
                  ranks * kMinPerRank);
}

size_t Group::segment_bytes(int num_ranks) {
  return front_bytes(num_ranks) +
         2 * static_cast<size_t>(num_ranks) * default_slot_bytes(num_ranks);
}

Group::Group(Segment segment, int rank, int num_ranks)
    : segment_(std::move(segment)),
      rank_(rank),
      num_ranks_(num_ranks),
      slot_bytes_(default_slot_bytes(num_ranks)),
      barrier_({.rank = rank, .num_ranks = num_ranks, .states = rank_states_of(segment_)}),
      sources_(static_cast<size_t>(num_ranks)) {
  check(segment_.bytes() == segment_bytes(num_ranks), "segment size does not match group");
}

std::byte* Group::slot(int rank) const {
  const auto number = 2 * static_cast<size_t>(rank) + window_number_ % 2;
  return segment_.data() + front_bytes(num_ranks_) + number * slot_bytes_;
}

void Group::barrier(Clock::time_point deadline) { barrier_.arrive_and_wait({}, deadline); }

void Group::broadcast(const Array& array, int root, Clock::time_point deadline) {
  const Call call{Collective::Broadcast, array.type, Reduction::None, root, array.count};
  for_each_window(
      call, {array.bytes(), slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        if (rank_ == root) copy_bytes(slot, array.data + window.begin, window.size);
      },
      [&](const Window& window) {
        if (rank_ != root) copy_bytes(array.data + window.begin, slot(root), window.size);
      });
}

// Reduces `part` of `window` over all ranks; the first byte of `window` corresponds to `out`.
// `own`: this rank's data.
void Group::reduce_window(const Sum& sum, const Window& window, const Window& part,
                          const std::byte* own, std::byte* out) {
  const auto& [call, order] = sum;
  const auto size = size_of(call.type);
  const auto begin = (window.begin + part.begin) / size;
  order.for_each_chunk(begin, begin + part.size / size, [&](int chunk, size_t from, size_t to) {
    const auto offset = from * size - window.begin;
    for (int i = 0; i < num_ranks_; ++i) {
      const auto rank = order.rank_at(chunk, i);
      sources_[static_cast<size_t>(i)] = (rank == rank_ ? own : slot(rank)) + offset;
    }
    if (call.reduction == Reduction::Sum)
      order.add(out + offset, sources_, to - from, call.type);
    else
      combine(out + offset, sources_, to - from, call.type, call.reduction);
  });
}

// Each rank reduces one slice of the window into its own slot. Returns when all have.
void Group::reduce_own_slice(const Sum& sum, const Window& window, Clock::time_point deadline) {
  reduce_window(sum, window, slice(window, rank_), slot(rank_), slot(rank_));
  barrier_.arrive_and_wait(sum.call, deadline);
}

// Whether to copy arrays into slots with non-temporal stores. Measured with the first large array,
// as the time of writing plus reading: depending on the placement of the cores, such stores are up
// to three times faster or slower.
bool Group::use_nontemporal_stores(const Call& call, Clock::time_point deadline) {
  if (nontemporal_) return *nontemporal_;
  std::vector<std::byte> array(std::min(kTrialBytes, slot_bytes_));
  const auto neighbor = (rank_ + 1) % num_ranks_;
  Clock::duration best[2] = {Clock::duration::max(), Clock::duration::max()};
  for (int trial = 0; trial < kTrials; ++trial) {
    const bool nontemporal = trial % 2 == 1;
    ++window_number_;
    barrier_.arrive_and_wait(call, deadline);  // a common start
    const auto begin = Clock::now();
    copy_to_shared(slot(rank_), array.data(), array.size(), nontemporal);
    barrier_.arrive_and_wait(call, deadline);
    copy_bytes(array.data(), slot(neighbor), array.size());
    best[nontemporal] = std::min(best[nontemporal], Clock::now() - begin);
  }
  nontemporal_ = best[true] < best[false];
  return *nontemporal_;
}

void Group::all_reduce(const Array& array, Reduction reduction, Clock::time_point deadline) {
  const Call call{Collective::AllReduce, array.type, reduction, 0, array.count};
  if (array.bytes() >= kMinInPlaceBytes && reduce_in_place(call, array, deadline)) return;
  const Sum sum{call, {num_ranks_, array.count, size_of(array.type)}};
  const bool nontemporal =
      array.bytes() >= kMinNontemporalBytes && use_nontemporal_stores(call, deadline);
  for_each_window(
      call, {array.bytes(), slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        copy_to_shared(slot, array.data + window.begin, window.size, nontemporal);
      },
      [&](const Window& window) {
        auto* const out = array.data + window.begin;
        // This rank's data is read from the array, which is closer in the caches than the slot.
        if (in_one_pass(array.bytes()))
          return reduce_window(sum, window, {0, window.size}, out, out);
        reduce_own_slice(sum, window, deadline);
        copy_slices(window, {0, window.size}, out);
      });
}

// Reduces this rank's slice of `range` and writes the result to all ranks.
// reduce_block(out, count) reduces sources_.
template <class ReduceBlock>
void Group::reduce_own_slice_in_place(const SymmetricBuffer& buffer, const BufferRange& range,
                                      SumKind kind, const ReduceBlock& reduce_block) {
  const auto size = size_of(range.type);
  const auto own = slice({0, range.count * size}, rank_);
  const SumOrder order(num_ranks_, range.count, size, kind);
  const auto first = own.begin / size, last = (own.begin + own.size) / size;
  order.for_each_chunk(first, last, [&](int chunk, size_t begin, size_t end) {
    for (size_t stop = begin; begin < end; begin = stop) {
      stop = std::min(end, begin + kBlockBytes / size);
      const auto offset = range.offset + begin * size;
      for (int i = 0; i < num_ranks_; ++i)
        sources_[static_cast<size_t>(i)] = buffer.of(order.rank_at(chunk, i)) + offset;
      auto* const out = buffer.data() + offset;
      reduce_block(out, stop - begin);
      for (int rank = 0; rank < num_ranks_; ++rank)
        if (rank != rank_) copy_bytes(buffer.of(rank) + offset, out, (stop - begin) * size);
    }
  });
}

// Reduces the array in place if it has the same symmetric address on all ranks, else returns false.
bool Group::reduce_in_place(const Call& call, const Array& array, Clock::time_point deadline) {
  const auto buffer = symmetric_buffers_.find(array.data, array.bytes());
  auto addressed = call;
  const auto offset = buffer ? static_cast<size_t>(array.data - buffer->data()) : 0;
  addressed.symmetric_address = buffer ? buffer->address_of(offset) : 0;
  if (!barrier_.arrive_and_wait(addressed, deadline)) return false;
  const BufferRange range{offset, array.count, array.type};
  reduce_own_slice_in_place(*buffer, range, SumKind::Ring, [&](std::byte* out, size_t count) {
    combine(out, sources_, count, call.type, call.reduction);
  });
  barrier_.arrive_and_wait(call, deadline);
  return true;
}

void Group::average_in_buffer(const SymmetricBuffer& buffer, std::span<const BufferRange> ranges,
                              const Averaging& averaging, Clock::time_point deadline) {
  Call call{Collective::AllReduce, ElementType::Float32, Reduction::Sum, 0, 0,
            buffer.address_of(0)};
  for (const auto& range : ranges) call.count += range.count;
  check(barrier_.arrive_and_wait(call, deadline), "ranks passed different symmetric buffers");
  for (const auto& range : ranges)
    reduce_own_slice_in_place(buffer, range, averaging.kind, [&](std::byte* out, size_t count) {
      add_scaled(out, sources_, count, range.type, averaging.factor, averaging.kind);
    });
  barrier_.arrive_and_wait(call, deadline);
}

bool Group::in_one_pass(size_t bytes) const {
  return num_ranks_ <= kMaxOnePassRanks || bytes <= kMaxOnePassBytes;
}

// Copies `part` of `window` from the slices that the ranks reduced.
void Group::copy_slices(const Window& window, const Window& part, std::byte* out) const {
  for (int rank = 0; rank < num_ranks_; ++rank) {
    const auto reduced = slice(window, rank);
    const auto begin = std::max(part.begin, reduced.begin);
    const auto end = std::min(part.begin + part.size, reduced.begin + reduced.size);
    if (begin < end) copy_bytes(out + (begin - part.begin), slot(rank) + begin, end - begin);
  }
}

// The part of a window that `rank` reduces.
Group::Window Group::slice(const Window& window, int rank) const {
  const auto step = round_up(window.size / static_cast<size_t>(num_ranks_) + 1, kLine);
  const auto begin = std::min(window.size, static_cast<size_t>(rank) * step);
  return {begin, std::min(step, window.size - begin)};
}

void Group::reduce(const Array& array, Reduction reduction, int root, Clock::time_point deadline) {
  const Call call{Collective::Reduce, array.type, reduction, root, array.count};
  const Sum sum{call, {num_ranks_, array.count, size_of(array.type)}};
  for_each_window(
      call, {array.bytes(), slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        copy_bytes(slot, array.data + window.begin, window.size);
      },
      [&](const Window& window) {
        auto* const out = array.data + window.begin;
        if (rank_ == root) reduce_window(sum, window, {0, window.size}, out, out);
      });
}

void Group::all_gather(const Array& in, std::span<std::byte* const> out,
                       Clock::time_point deadline) {
  const Call call{Collective::AllGather, in.type, Reduction::None, 0, in.count};
  gather_arrays(call, in, out, deadline);
}

void Group::all_gather_chunks(const Array& whole, Clock::time_point deadline) {
  const auto num_ranks = static_cast<size_t>(num_ranks_);
  check(whole.count % num_ranks == 0, "array size is not a multiple of the number of ranks");
  const auto bytes = whole.bytes() / num_ranks;
  const auto buffer = symmetric_buffers_.find(whole.data, whole.bytes());
  const auto offset = buffer ? static_cast<size_t>(whole.data - buffer->data()) : 0;
  Call call{Collective::AllGather, whole.type, Reduction::None, 0, whole.count / num_ranks};
  auto addressed = call;
  addressed.symmetric_address = buffer ? buffer->address_of(offset) : 0;
  if (barrier_.arrive_and_wait(addressed, deadline)) {
    for (size_t i = 1; i < num_ranks; ++i) {  // each rank starts with a different source
      const auto rank = (static_cast<size_t>(rank_) + i) % num_ranks;
      copy_bytes(whole.data + rank * bytes,
                 buffer->of(static_cast<int>(rank)) + offset + rank * bytes, bytes);
    }
    barrier_.arrive_and_wait(call, deadline);  // no rank changes its chunk while others read it
    return;
  }
  std::vector<std::byte*> out;
  for (size_t rank = 0; rank < num_ranks; ++rank) out.push_back(whole.data + rank * bytes);
  all_gather({out[static_cast<size_t>(rank_)], whole.count / num_ranks, whole.type}, out, deadline);
}

void Group::gather(const Array& in, std::span<std::byte* const> out, int root,
                   Clock::time_point deadline) {
  const Call call{Collective::Gather, in.type, Reduction::None, root, in.count};
  gather_arrays(call, in, out, deadline);
}

void Group::gather_arrays(const Call& call, const Array& in, std::span<std::byte* const> out,
                          Clock::time_point deadline) {
  for_each_window(
      call, {in.bytes(), slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        copy_bytes(slot, in.data + window.begin, window.size);
      },
      [&](const Window& window) {
        for (size_t rank = 0; rank < out.size(); ++rank)
          copy_bytes(out[rank] + window.begin, slot(static_cast<int>(rank)), window.size);
      });
}

// Size of one rank's part when a slot holds a part for every rank.
size_t Group::part_bytes() const {
  return slot_bytes_ / static_cast<size_t>(num_ranks_) / kLine * kLine;
}

void Group::scatter(std::span<const std::byte* const> in, const Array& out, int root,
                    Clock::time_point deadline) {
  const Call call{Collective::Scatter, out.type, Reduction::None, root, out.count};
  const auto part = part_bytes();
  for_each_window(
      call, {out.bytes(), part, deadline},
      [&](std::byte* slot, const Window& window) {
        for (size_t rank = 0; rank < in.size(); ++rank)
          copy_bytes(slot + rank * part, in[rank] + window.begin, window.size);
      },
      [&](const Window& window) {
        copy_bytes(out.data + window.begin, slot(root) + static_cast<size_t>(rank_) * part,
                   window.size);
      });
}

void Group::reduce_scatter(std::span<const std::byte* const> in, const Array& out,
                           Reduction reduction, Clock::time_point deadline) {
  const Call call{Collective::ReduceScatter, out.type, reduction, 0, out.count};
  const auto part = part_bytes();
  const SumOrder order(num_ranks_, out.count, size_of(out.type));
  for_each_window(
      call, {out.bytes(), part, deadline},
      [&](std::byte* slot, const Window& window) {
        for (size_t rank = 0; rank < in.size(); ++rank)
          copy_bytes(slot + rank * part, in[rank] + window.begin, window.size);
      },
      [&](const Window& window) {
        for (int i = 0; i < num_ranks_; ++i)
          sources_[static_cast<size_t>(i)] =
              slot(order.rank_at(rank_, i)) + static_cast<size_t>(rank_) * part;
        combine(out.data + window.begin, sources_, window.size / size_of(out.type), out.type,
                reduction);
      });
}

}  // namespace lockstep::distributed::shm
