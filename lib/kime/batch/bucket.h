// Buckets: the sizes that plans are made for, and the table that names them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kime/base/error.h"

namespace kime {

/// What a plan holds at most.
struct Bucket {
  std::size_t tokens = 0;
  std::size_t seqs = 0;
  std::size_t markers = 0;

  [[nodiscard]] bool holds(std::size_t t, std::size_t s, std::size_t m) const { return t <= tokens && s <= seqs && m <= markers; }
  bool operator==(const Bucket&) const = default;
};

/// Stages by name, each an ordered list of buckets that is searched from the front.
class BucketTable {
 public:
  /// The compiled-in table: stage `compat`, about 20 steps from 32 to 16,384 tokens, seqs = tokens / 4 up to 1,024, markers = tokens
  /// up to 8,192.
  static const BucketTable& compiled_in();

  /// Parses `stage tokens seqs markers` lines with `#` comments. `file` names the source in errors.
  /// Errors: `input`, "FILE:LINE: ..." for a bad line, a duplicate, or a bucket that a bucket before it in its stage holds.
  static Result<BucketTable> parse(std::string_view text, std::string_view file);

  /// The buckets of `stage`, or nothing when there is no such stage.
  [[nodiscard]] std::span<const Bucket> stage(std::string_view stage) const;
  /// The names of the stages, in the order of the table.
  [[nodiscard]] std::vector<std::string> stages() const;

 private:
  struct Stage {
    std::string name;
    std::vector<Bucket> buckets;
    std::vector<std::size_t> lines;  ///< Where each stands in its file, for errors.
  };
  std::vector<Stage> stages_;
};

/// The first bucket that holds the counts, or nullptr.
[[nodiscard]] const Bucket* find_bucket(std::span<const Bucket> buckets, std::size_t tokens, std::size_t seqs, std::size_t markers);

/// "no compat bucket holds 20000 tokens, 1 sequences and 4 markers"
[[nodiscard]] Error no_bucket(std::string_view stage, std::size_t tokens, std::size_t seqs, std::size_t markers);

}  // namespace kime
