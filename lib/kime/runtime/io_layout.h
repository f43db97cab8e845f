// How a batch and its scores lie in a stream's staging buffers: the same on every backend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kime/batch/bucket.h"

namespace kime {

/// Offsets in bytes of a batch of at most a bucket's size in an `inputs` buffer: ids uint32[tokens], cu uint32[seqs + 1],
/// markers uint32[markers], mcu uint32[seqs + 1], qtype uint8[seqs]. Each begins on a multiple of 64.
struct BatchLayout {
  std::size_t ids = 0;
  std::size_t cu = 0;
  std::size_t markers = 0;
  std::size_t mcu = 0;
  std::size_t qtype = 0;
  std::size_t bytes = 0;

  explicit constexpr BatchLayout(const Bucket& bucket) {
    ids = take(bucket.tokens * sizeof(std::uint32_t));
    cu = take((bucket.seqs + 1) * sizeof(std::uint32_t));
    markers = take(bucket.markers * sizeof(std::uint32_t));
    mcu = take((bucket.seqs + 1) * sizeof(std::uint32_t));
    qtype = take(bucket.seqs);
  }

 private:
  constexpr std::size_t take(std::size_t size) {
    const std::size_t offset = bytes;
    bytes += (size + 63) / 64 * 64;
    return offset;
  }
};

/// Offsets in bytes of a batch's scores in an `outputs` buffer: logits float32[markers], act float32[seqs][2].
struct ScoreLayout {
  std::size_t logits = 0;
  std::size_t act = 0;
  std::size_t bytes = 0;

  explicit constexpr ScoreLayout(const Bucket& bucket)
      : act((bucket.markers * sizeof(float) + 63) / 64 * 64), bytes(act + (bucket.seqs * 2 * sizeof(float) + 63) / 64 * 64) {}
};

}  // namespace kime
