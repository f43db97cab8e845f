#include "tests/cuda/shim/shadow.h"

#include <fmt/format.h>

namespace kime::cuda::shim {

namespace {

constexpr unsigned kWarp = 32;

// Nothing orders the two: no __syncthreads between them, nor, within a warp, a __syncwarp.
bool unordered(const Access& before, const Access& now) {
  if (before.epoch == 0 || before.epoch != now.epoch) {
    return false;
  }
  if (before.thread / kWarp != now.thread / kWarp) {
    return true;
  }
  return before.thread != now.thread && before.warp_epoch == now.warp_epoch;
}

std::string race(const char* now_does, const Access& now, const char* before_did, const Access& before, std::size_t offset) {
  return fmt::format("race on shared memory at byte {}: thread {} {} what thread {} {}, with no barrier between", offset, now.thread,
                     now_does, before.thread, before_did);
}

}  // namespace

std::string Shadow::read(std::size_t offset, std::size_t bytes, const Access& by) {
  for (std::size_t i = offset / kPiece; i < (offset + bytes + kPiece - 1) / kPiece; ++i) {
    Cell& cell = cells_[i];
    if (cell.in_flight) {
      return fmt::format("thread {} reads shared memory at byte {} while a copy of thread {} is under way", by.thread, i * kPiece,
                         cell.write.thread);
    }
    const bool own_warp = cell.write.thread / kWarp == by.thread / kWarp;
    const bool unseen = by.whole_warp && own_warp && cell.write.epoch == by.epoch && cell.write.warp_epoch == by.warp_epoch;
    if (unseen || unordered(cell.write, by)) {
      return race("reads", by, "wrote", cell.write, i * kPiece);
    }
    Access* last = cell.reads;
    if (last[0].epoch == by.epoch && last[0].thread != by.thread) {
      last[1] = last[0];
    }
    last[0] = by;
  }
  return {};
}

std::string Shadow::write(std::size_t offset, std::size_t bytes, const Access& by) {
  for (std::size_t i = offset / kPiece; i < (offset + bytes + kPiece - 1) / kPiece; ++i) {
    Cell& cell = cells_[i];
    if (cell.in_flight) {
      return fmt::format("thread {} writes shared memory at byte {} while a copy of thread {} is under way", by.thread, i * kPiece,
                         cell.write.thread);
    }
    if (unordered(cell.write, by)) {
      return race("writes", by, "wrote", cell.write, i * kPiece);
    }
    for (const Access& read : cell.reads) {
      // A warp's ldmatrix is over for all its lanes before any of them goes on.
      const bool done = read.whole_warp && read.thread / kWarp == by.thread / kWarp;
      if (!done && unordered(read, by)) {
        return race("writes", by, "read", read, i * kPiece);
      }
    }
    cell.write = by;
  }
  return {};
}

std::string Shadow::begin_copy(std::size_t offset, std::size_t bytes, const Access& by) {
  std::string wrong = write(offset, bytes, by);
  for (std::size_t i = offset / kPiece; wrong.empty() && i < (offset + bytes) / kPiece; ++i) {
    cells_[i].in_flight = true;
  }
  return wrong;
}

void Shadow::end_copy(std::size_t offset, std::size_t bytes, const Access& by) {
  for (std::size_t i = offset / kPiece; i < (offset + bytes) / kPiece; ++i) {
    cells_[i].in_flight = false;
    cells_[i].write = by;
  }
}

bool Shadow::written(std::size_t offset, std::size_t bytes, std::uint32_t first) const {
  for (std::size_t i = offset / kPiece; i < (offset + bytes + kPiece - 1) / kPiece; ++i) {
    if (cells_[i].write.epoch < first) {
      return false;
    }
  }
  return true;
}

}  // namespace kime::cuda::shim
