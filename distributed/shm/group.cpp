#include "distributed/shm/group.h"

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
// Up to here one pass over all slots by every rank is quicker than a slice each and a second
// meeting.
constexpr int kFewRanks = 3;
constexpr size_t kSmallBytes = 16 << 10;
// From here on it pays to ask first whether the array lies in a buffer.
constexpr size_t kInPlaceBytes = 256 << 10;
// What is reduced before it is given to the others: it stays in the first cache.
constexpr size_t kBlockBytes = 8 << 10;
// From here on the two ways of copying into a slot differ.
constexpr size_t kTriedBytes = 32 << 10, kTrialBytes = 64 << 10;
constexpr int kTrials = 16;

size_t up_to(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t front_bytes(int num_ranks) {
  return up_to(sizeof(SegmentHeader) + static_cast<size_t>(num_ranks) * sizeof(RankLine), kPage);
}

}  // namespace

SegmentHeader& header_of(const Segment& segment) {
  return *reinterpret_cast<SegmentHeader*>(segment.data());
}

RankLine* lines_of(const Segment& segment) {
  return reinterpret_cast<RankLine*>(segment.data() + sizeof(SegmentHeader));
}

size_t Group::default_slot_bytes(int num_ranks) {
  constexpr size_t kMaxTrialBytes = size_t{1} << 20, kOfAll = size_t{64} << 20, kPerRank = 256;
  const auto ranks = static_cast<size_t>(num_ranks);
  return std::max(std::min(kMaxTrialBytes, kOfAll / (2 * ranks)) / kPage * kPage, ranks * kPerRank);
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
      rounds_({.rank = rank, .num_ranks = num_ranks, .lines = lines_of(segment_)}),
      sources_(static_cast<size_t>(num_ranks)) {
  check(segment_.bytes() == segment_bytes(num_ranks), "a segment of the size of the group");
}

std::byte* Group::slot(int rank) const {
  const auto number = 2 * static_cast<size_t>(rank) + turn_ % 2;
  return segment_.data() + front_bytes(num_ranks_) + number * slot_bytes_;
}

template <class Write, class Read>
void Group::go_through(const Call& call, const Pass& pass, const Write& write, const Read& read) {
  size_t begin = 0;
  do {  // an empty array makes one round too
    ++turn_;
    const Window window{begin, std::min(pass.window, pass.bytes - begin)};
    write(slot(rank_), window);
    rounds_.meet(call, pass.deadline);
    read(window);
    begin += window.size;
  } while (begin < pass.bytes);
}

void Group::barrier(Clock::time_point deadline) { rounds_.meet({}, deadline); }

void Group::broadcast(const Array& array, int root, Clock::time_point deadline) {
  const Call call{Collective::Broadcast, array.type, Reduction::None, root, array.count};
  go_through(
      call, {array.bytes(), slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        if (rank_ == root) copy_bytes(slot, array.data + window.begin, window.size);
      },
      [&](const Window& window) {
        if (rank_ != root) copy_bytes(array.data + window.begin, slot(root), window.size);
      });
}

// `part` of `window`, whose first byte belongs at `out`. `own`: where this rank's content is.
void Group::combine_window(const Sum& sum, const Window& window, const Window& part,
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
    combine(out + offset, sources_, to - from, call.type, call.reduction);
  });
}

// Every rank reduces a slice of the window into its own slot; returns when all have.
void Group::share_slices(const Sum& sum, const Window& window, Clock::time_point deadline) {
  combine_window(sum, window, slice(window, rank_), slot(rank_), slot(rank_));
  rounds_.meet(sum.call, deadline);
}

// Whether to copy arrays into slots past the caches, tried with the first large one: the quicker
// way for who writes and who reads together. It is three times the other one or a third of it,
// depending on where the host has put the cores.
bool Group::use_nontemporal_stores(const Call& call, Clock::time_point deadline) {
  if (use_nontemporal_stores_) return *use_nontemporal_stores_;
  std::vector<std::byte> array(std::min(kTrialBytes, slot_bytes_));
  const auto neighbor = (rank_ + 1) % num_ranks_;
  Clock::duration least[2] = {Clock::duration::max(), Clock::duration::max()};
  for (int trial = 0; trial < kTrials; ++trial) {
    const bool nontemporal = trial % 2 == 1;
    ++turn_;
    rounds_.meet(call, deadline);  // all begin together
    const auto begin = Clock::now();
    copy_for_others(slot(rank_), array.data(), array.size(), nontemporal);
    rounds_.meet(call, deadline);
    copy_bytes(array.data(), slot(neighbor), array.size());
    least[nontemporal] = std::min(least[nontemporal], Clock::now() - begin);
  }
  use_nontemporal_stores_ = least[true] < least[false];
  return *use_nontemporal_stores_;
}

void Group::all_reduce(const Array& array, Reduction reduction, Clock::time_point deadline) {
  const Call call{Collective::AllReduce, array.type, reduction, 0, array.count};
  if (array.bytes() >= kInPlaceBytes && reduce_in_place(call, array, deadline)) return;
  const Sum sum{call, {num_ranks_, array.count, size_of(array.type)}};
  const bool nontemporal = array.bytes() >= kTriedBytes && use_nontemporal_stores(call, deadline);
  go_through(
      call, {array.bytes(), slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        copy_for_others(slot, array.data + window.begin, window.size, nontemporal);
      },
      [&](const Window& window) {
        auto* const out = array.data + window.begin;
        // The own part is still where it comes from, and nearer there than in the slot.
        if (in_one_pass(array.bytes()))
          return combine_window(sum, window, {0, window.size}, out, out);
        share_slices(sum, window, deadline);
        copy_slices(window, {0, window.size}, out);
      });
}

// Reduces this rank's slice of an array at one place of a buffer, for all ranks:
// reduce_block(out, count) brings sources_ together.
template <class ReduceBlock>
void Group::share_stretch(const SymmetricBuffer& buffer, const Stretch& stretch,
                          const ReduceBlock& reduce_block) {
  const auto size = size_of(stretch.type);
  const auto mine = slice({0, stretch.count * size}, rank_);
  const SumOrder order(num_ranks_, stretch.count, size);
  const auto first = mine.begin / size, last = (mine.begin + mine.size) / size;
  order.for_each_chunk(first, last, [&](int chunk, size_t begin, size_t end) {
    for (size_t stop = begin; begin < end; begin = stop) {
      stop = std::min(end, begin + kBlockBytes / size);
      const auto offset = stretch.offset + begin * size;
      for (int i = 0; i < num_ranks_; ++i)
        sources_[static_cast<size_t>(i)] = buffer.of(order.rank_at(chunk, i)) + offset;
      auto* const out = buffer.data() + offset;
      reduce_block(out, stop - begin);
      for (int rank = 0; rank < num_ranks_; ++rank)
        if (rank != rank_) copy_bytes(buffer.of(rank) + offset, out, (stop - begin) * size);
    }
  });
}

// Whether the array lies at one place of a buffer on all ranks; it is reduced then.
bool Group::reduce_in_place(const Call& call, const Array& array, Clock::time_point deadline) {
  const auto buffer = symmetric_buffers_.find(array.data, array.bytes());
  auto placed = call;
  const auto offset = buffer ? static_cast<size_t>(array.data - buffer->data()) : 0;
  placed.place = buffer ? buffer->address_of(offset) : 0;
  if (!rounds_.meet(placed, deadline)) return false;
  share_stretch(*buffer, {offset, array.count, array.type}, [&](std::byte* out, size_t count) {
    combine(out, sources_, count, call.type, call.reduction);
  });
  rounds_.meet(call, deadline);
  return true;
}

void Group::average_in(const SymmetricBuffer& buffer, std::span<const Stretch> stretches, double factor,
                       Clock::time_point deadline) {
  Call call{Collective::AllReduce, ElementType::Float32, Reduction::Sum, 0, 0, buffer.address_of(0)};
  for (const auto& stretch : stretches) call.count += stretch.count;
  check(rounds_.meet(call, deadline), "all ranks average in the same buffer");
  for (const auto& stretch : stretches)
    share_stretch(buffer, stretch, [&](std::byte* out, size_t count) {
      add_scaled(out, sources_, count, stretch.type, factor);
    });
  rounds_.meet(call, deadline);
}

bool Group::in_one_pass(size_t bytes) const {
  return num_ranks_ <= kFewRanks || bytes <= kSmallBytes;
}

namespace {

// Walks over the pieces of parts that lie in consecutive windows.
class Pieces {
 public:
  explicit Pieces(std::span<const Array> parts) : parts_(parts) {}

  // visit(data, offset, size) for the pieces of the next `size` bytes; `offset`: within them.
  template <class Visit>
  void next(size_t size, const Visit& visit) {
    for (size_t offset = 0; offset < size;) {
      const auto& part = parts_[part_];
      const auto piece = std::min(size - offset, part.bytes() - within_);
      visit(part.data + within_, offset, piece);
      offset += piece;
      within_ += piece;
      if (within_ == part.bytes()) {
        ++part_;
        within_ = 0;
      }
    }
  }

 private:
  std::span<const Array> parts_;
  size_t part_ = 0, within_ = 0;
};

}  // namespace

void Group::average_parts(std::span<const Array> parts, size_t count, double factor,
                          Clock::time_point deadline) {
  const auto type = parts.empty() ? ElementType::Float32 : parts.front().type;
  const auto bytes = count * size_of(type);
  const Call call{Collective::AllReduce, type, Reduction::Sum, 0, count};
  const Sum sum{call, {num_ranks_, count, size_of(type)}};
  Pieces to_write(parts), to_read(parts);
  go_through(
      call, {bytes, slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        to_write.next(window.size, [&](const std::byte* data, size_t offset, size_t size) {
          scale(slot + offset, data, size / size_of(type), type, factor);
        });
      },
      [&](const Window& window) {
        const bool one_pass = in_one_pass(bytes);
        if (!one_pass) share_slices(sum, window, deadline);
        to_read.next(window.size, [&](std::byte* data, size_t offset, size_t size) {
          // combine_window places by the window's offsets
          if (one_pass)
            return combine_window(sum, window, {offset, size}, slot(rank_), data - offset);
          copy_slices(window, {offset, size}, data);
        });
      });
}

// `part` of `window` out of the slices that the ranks reduced.
void Group::copy_slices(const Window& window, const Window& part, std::byte* out) const {
  for (int rank = 0; rank < num_ranks_; ++rank) {
    const auto reduced = slice(window, rank);
    const auto begin = std::max(part.begin, reduced.begin);
    const auto end = std::min(part.begin + part.size, reduced.begin + reduced.size);
    if (begin < end) copy_bytes(out + (begin - part.begin), slot(rank) + begin, end - begin);
  }
}

// The part of a window that `rank` reduces for all.
Group::Window Group::slice(const Window& window, int rank) const {
  const auto step = up_to(window.size / static_cast<size_t>(num_ranks_) + 1, kLine);
  const auto begin = std::min(window.size, static_cast<size_t>(rank) * step);
  return {begin, std::min(step, window.size - begin)};
}

void Group::reduce(const Array& array, Reduction reduction, int root, Clock::time_point deadline) {
  const Call call{Collective::Reduce, array.type, reduction, root, array.count};
  const Sum sum{call, {num_ranks_, array.count, size_of(array.type)}};
  go_through(
      call, {array.bytes(), slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        copy_bytes(slot, array.data + window.begin, window.size);
      },
      [&](const Window& window) {
        auto* const out = array.data + window.begin;
        if (rank_ == root) combine_window(sum, window, {0, window.size}, out, out);
      });
}

void Group::all_gather(const Array& mine, std::span<std::byte* const> out,
                       Clock::time_point deadline) {
  const Call call{Collective::AllGather, mine.type, Reduction::None, 0, mine.count};
  collect(call, mine, out, deadline);
}

void Group::gather(const Array& mine, std::span<std::byte* const> out, int root,
                   Clock::time_point deadline) {
  const Call call{Collective::Gather, mine.type, Reduction::None, root, mine.count};
  collect(call, mine, out, deadline);
}

void Group::collect(const Call& call, const Array& mine, std::span<std::byte* const> out,
                    Clock::time_point deadline) {
  go_through(
      call, {mine.bytes(), slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        copy_bytes(slot, mine.data + window.begin, window.size);
      },
      [&](const Window& window) {
        for (size_t rank = 0; rank < out.size(); ++rank)
          copy_bytes(out[rank] + window.begin, slot(static_cast<int>(rank)), window.size);
      });
}

// With a part for every rank in one slot.
size_t Group::part_bytes() const {
  return slot_bytes_ / static_cast<size_t>(num_ranks_) / kLine * kLine;
}

void Group::scatter(std::span<const std::byte* const> in, const Array& mine, int root,
                    Clock::time_point deadline) {
  const Call call{Collective::Scatter, mine.type, Reduction::None, root, mine.count};
  const auto part = part_bytes();
  go_through(
      call, {mine.bytes(), part, deadline},
      [&](std::byte* slot, const Window& window) {
        for (size_t rank = 0; rank < in.size(); ++rank)
          copy_bytes(slot + rank * part, in[rank] + window.begin, window.size);
      },
      [&](const Window& window) {
        copy_bytes(mine.data + window.begin, slot(root) + static_cast<size_t>(rank_) * part,
                   window.size);
      });
}

void Group::reduce_scatter(std::span<const std::byte* const> in, const Array& mine,
                           Reduction reduction, Clock::time_point deadline) {
  const Call call{Collective::ReduceScatter, mine.type, reduction, 0, mine.count};
  const auto part = part_bytes();
  const SumOrder order(num_ranks_, mine.count, size_of(mine.type));
  go_through(
      call, {mine.bytes(), part, deadline},
      [&](std::byte* slot, const Window& window) {
        for (size_t rank = 0; rank < in.size(); ++rank)
          copy_bytes(slot + rank * part, in[rank] + window.begin, window.size);
      },
      [&](const Window& window) {
        for (int i = 0; i < num_ranks_; ++i)
          sources_[static_cast<size_t>(i)] =
              slot(order.rank_at(rank_, i)) + static_cast<size_t>(rank_) * part;
        combine(mine.data + window.begin, sources_, window.size / size_of(mine.type), mine.type,
                reduction);
      });
}

}  // namespace lockstep::distributed::shm
