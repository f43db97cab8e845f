// Packed weights on disk, so that a later start reads them straight into place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "kernels/cpu/kernels.h"
#include "kime/backend/cpu/crew.h"
#include "kime/backend/cpu/weights.h"
#include "kime/base/error.h"
#include "kime/base/tensor.h"
#include "kime/graph/graph.h"

namespace kime::cpu {

/// A folder of files, each the block of one layout, named by its weight_key(). A file is
///   "kimewght", then as little-endian integers the format (4 bytes) and the bytes of a piece (4), the key (16), the block's bytes (8);
///   a checksum (8 bytes) for each piece of the block; zeros up to 8 bytes before a multiple of 4096; a checksum of all that;
///   the block.
/// A file is believed only when all of it is as it should be; what is wrong with one costs a notice and the time to pack and to write it
/// anew, never the run. It is read, not mapped: a mapped file that shrinks, or a network file system, kills a process with SIGBUS.
/// Thread-safe.
class WeightCache {
 public:
  struct Counts {
    std::size_t loads = 0;   ///< Blocks that were asked for.
    std::size_t read = 0;    ///< Those that came from a file.
    std::size_t stored = 0;  ///< Those for which a file was written.
  };

  /// The folder is made when a file is to be written. `notice`, if any, hears of files that are no good or cannot be written.
  WeightCache(std::string folder, std::function<void(const std::string&)> notice);

  /// As load_weights(), from the file where there is a good one; else the file is written. Errors: those of load_weights().
  Status load(const TensorSource& tensors, const Graph& graph, const WeightLayout& layout, const kernels::Table& table, const Crew& crew,
              std::size_t threads, std::byte* memory);
  [[nodiscard]] Counts counts() const;

 private:
  void count(std::size_t Counts::*what);

  std::string folder_;
  std::function<void(const std::string&)> notice_;
  mutable std::mutex mutex_;
  Counts counts_;
};

}  // namespace kime::cpu
