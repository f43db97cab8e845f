// The journal beside an output that is being written: what job it is, and how far it has come.
//
// One line of JSON, then a line with the digest of the first one:
//
//   {"kime_journal":1,"kime":"0.1.0","replaces":false,"job":{"arithmetic":"1","emit":"logits",...},
//    "state":{"complete":false,"output":8192,"tail":"<digest>","file":0,"offset":4711,"line":17,"inside":false,"scored":16,...}}
//   <32 hexadecimal digits>
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kime/base/error.h"
#include "kime/io/line_reader.h"

namespace kime {

/// What makes a job the one that it is: names and values, in the order in which people read them.
using JobFields = std::vector<std::pair<std::string, std::string>>;

/// A place in a list of inputs.
struct InputPlace {
  std::size_t file = 0;  ///< From 0.
  LinePlace place{};

  bool operator==(const InputPlace&) const = default;
};

/// How far a job has come.
struct JobState {
  bool complete = false;     ///< Nothing is left to be scored.
  std::uint64_t output = 0;  ///< Bytes of the output that hold what was read before `input`.
  InputPlace input{};
  std::uint64_t scored = 0;
  std::uint64_t failed = 0;
  std::uint64_t tokens = 0;  ///< Of the scored records.

  bool operator==(const JobState&) const = default;
};

struct Journal {
  std::string kime;       ///< The version that wrote it.
  bool replaces = false;  ///< The job may replace a finished output that is there.
  JobFields job;
  JobState state;
  std::string tail;  ///< digest_before() the output's byte `state.output`.
};

[[nodiscard]] std::string to_text(const Journal& journal);

/// Errors: `input`, beginning with `name`: of another format (naming both), or damaged.
Result<Journal> parse_journal(std::string_view text, const std::string& name);

/// A line for each field in which two jobs differ, each indented: "  precision: was f32, is bf16\n"; empty for the same job.
[[nodiscard]] std::string differences(const JobFields& was, const JobFields& is);

}  // namespace kime
