// What happened last to each piece of a block's shared memory, so that accesses that no barrier orders are found, whatever order they
// happened to run in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kime::cuda::shim {

/// Who touches shared memory, and when. The epoch counts a block's __syncthreads and never falls, the warp's its __syncwarps.
struct Access {
  std::uint32_t epoch = 0;
  std::uint32_t warp_epoch = 0;
  std::uint16_t thread = 0;
  bool whole_warp = false;  ///< All lanes use what is read, as with ldmatrix.
};

/// Covers so many bytes, in pieces of two.
class Shadow {
 public:
  explicit Shadow(std::size_t bytes) : cells_((bytes + kPiece - 1) / kPiece) {}

  /// Each returns what is wrong with the access to [offset, offset + bytes), or nothing.
  [[nodiscard]] std::string read(std::size_t offset, std::size_t bytes, const Access& by);
  [[nodiscard]] std::string write(std::size_t offset, std::size_t bytes, const Access& by);
  /// An asynchronous copy into it begins (a write), and has been waited for.
  [[nodiscard]] std::string begin_copy(std::size_t offset, std::size_t bytes, const Access& by);
  void end_copy(std::size_t offset, std::size_t bytes, const Access& by);
  /// Something was written there, in this block: since epoch `first`.
  [[nodiscard]] bool written(std::size_t offset, std::size_t bytes, std::uint32_t first) const;

 private:
  static constexpr std::size_t kPiece = 2;
  struct Cell {
    Access write;
    Access reads[2];  ///< The last of two threads: enough to find one that a later write races with.
    bool in_flight = false;
  };

  std::vector<Cell> cells_;
};

}  // namespace kime::cuda::shim
