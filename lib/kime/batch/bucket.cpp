#include "kime/batch/bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

namespace kime {
namespace {

constexpr std::string_view kSpace = " \t\r\v\f";

/// Takes the next word off the front of `text`; empty at its end.
std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  const auto word = text.substr(0, text.find_first_of(kSpace));
  text.remove_prefix(word.size());
  return word;
}

/// A count that a batch can reach: at most 2^32 - 1.
std::optional<std::size_t> parse_count(std::string_view word) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) {
    return std::nullopt;
  }
  return value;
}

struct Entry {
  std::string_view stage;
  Bucket bucket;
};

/// One line without its comment, which is not blank.
Result<Entry> parse_entry(std::string_view line) {
  Entry entry;
  entry.stage = take_word(line);
  struct Field {
    std::string_view name;
    std::size_t* value;
    std::size_t least;
  };
  const std::array<Field, 3> fields = {
      {{"tokens", &entry.bucket.tokens, 1}, {"seqs", &entry.bucket.seqs, 1}, {"markers", &entry.bucket.markers, 0}}};
  for (const Field& field : fields) {
    const auto word = take_word(line);
    if (word.empty()) {
      return Error(ErrorKind::input, fmt::format("{} is missing; a line is `stage tokens seqs markers`", field.name));
    }
    const auto count = parse_count(word);
    if (!count || *count < field.least) {
      return Error(ErrorKind::input, fmt::format("{} is {}, not an integer from {} to {}", field.name, word, field.least,
                                                 std::numeric_limits<std::uint32_t>::max()));
    }
    *field.value = *count;
  }
  if (const auto word = take_word(line); !word.empty()) {
    return Error(ErrorKind::input, fmt::format("{} is one word too many; a line is `stage tokens seqs markers`", word));
  }
  return entry;
}

}  // namespace

const BucketTable& BucketTable::compiled_in() {
  static const BucketTable table = [] {
    BucketTable made;
    Stage& compat = made.stages_.emplace_back(Stage{"compat", {}, {}});
    // Two steps for each doubling, so that padding to a bucket is at most a half and a quarter on average.
    constexpr std::array<std::size_t, 19> kSteps = {32,   48,   64,   96,   128,  192,  256,  384,   512,  768,
                                                    1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
    for (const std::size_t tokens : kSteps) {
      compat.buckets.push_back({tokens, std::min<std::size_t>(tokens / 4, 1024), std::min<std::size_t>(tokens, 8192)});
    }
    return made;
  }();
  return table;
}

Result<BucketTable> BucketTable::parse(std::string_view text, std::string_view file) {
  BucketTable table;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto fail = [&](std::string_view what) { return Error(ErrorKind::input, fmt::format("{}:{}: {}", file, number, what)); };
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(kSpace) == std::string_view::npos) {
      continue;
    }
    const auto entry = parse_entry(line);
    if (!entry) {
      return fail(entry.error().message());
    }
    auto stage = std::find_if(table.stages_.begin(), table.stages_.end(), [&](const Stage& s) { return s.name == entry->stage; });
    if (stage == table.stages_.end()) {
      stage = table.stages_.insert(stage, Stage{std::string(entry->stage), {}, {}});
    }
    const Bucket& bucket = entry->bucket;
    const auto earlier = std::find_if(stage->buckets.begin(), stage->buckets.end(),
                                      [&](const Bucket& b) { return b.holds(bucket.tokens, bucket.seqs, bucket.markers); });
    if (earlier != stage->buckets.end()) {
      const std::size_t where = stage->lines[static_cast<std::size_t>(earlier - stage->buckets.begin())];
      return fail(*earlier == bucket ? fmt::format("this bucket is a duplicate of line {}", where)
                                     : fmt::format("this bucket is never used: that of line {} holds all it does", where));
    }
    stage->buckets.push_back(bucket);
    stage->lines.push_back(number);
  }
  if (table.stages_.empty()) {
    return Error(ErrorKind::input, fmt::format("{}: no bucket; a line is `stage tokens seqs markers`", file));
  }
  return table;
}

std::span<const Bucket> BucketTable::stage(std::string_view stage) const {
  for (const Stage& candidate : stages_) {
    if (candidate.name == stage) {
      return candidate.buckets;
    }
  }
  return {};
}

std::vector<std::string> BucketTable::stages() const {
  std::vector<std::string> names;
  for (const Stage& stage : stages_) {
    names.push_back(stage.name);
  }
  return names;
}

const Bucket* find_bucket(std::span<const Bucket> buckets, std::size_t tokens, std::size_t seqs, std::size_t markers) {
  const auto found = std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& b) { return b.holds(tokens, seqs, markers); });
  return found == buckets.end() ? nullptr : &*found;
}

Error no_bucket(std::string_view stage, std::size_t tokens, std::size_t seqs, std::size_t markers) {
  return {ErrorKind::no_bucket, fmt::format("no {} bucket holds {} tokens, {} sequences and {} markers", stage, tokens, seqs, markers)};
}

}  // namespace kime
