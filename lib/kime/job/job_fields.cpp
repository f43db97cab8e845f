#include "kime/job/job_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "kime/base/arithmetic.h"
#include "kime/io/digest.h"
#include "kime/model/file.h"

namespace kime {
namespace {

constexpr std::uint64_t kMostConfig = std::uint64_t{64} << 20;
constexpr std::string_view kClasses = "classes of devices";
constexpr std::string_view kAnd = " + ";  // between them
constexpr std::size_t kPiece = std::size_t{4} << 20;

// A name as JSON has it, so that any bytes are text.
std::string as_json(std::string_view name) {
  return nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string_view name_of(Emit emit) {
  switch (emit) {
    case Emit::logits:
      return "logits";
    case Emit::probs:
      return "probs";
    case Emit::answer:
      return "answer";
    case Emit::all:
      break;
  }
  return "all";
}

std::string_view name_of(OnError on_error) {
  switch (on_error) {
    case OnError::line:
      return "line";
    case OnError::skip:
      return "skip";
    case OnError::stop:
      break;
  }
  return "stop";
}

// What the devices have of something, without repetitions.
template <class Get>
std::string joined(const Fleet& fleet, std::string_view between, const Get& get) {
  std::set<std::string> all;
  for (const FleetDevice& device : fleet.devices()) {
    all.emplace(get(device));
  }
  return fmt::format("{}", fmt::join(all, between));
}

}  // namespace

Result<JobFields> input_fields(std::span<const LineReader> inputs, bool twice) {
  JobFields fields{{"inputs", std::to_string(inputs.size())}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string name(inputs[i].name());
    const std::string which = fmt::format("input {} ", i + 1);
    if (inputs.size() > 1) {
      fields.emplace_back(which + "name", as_json(name));
    }
    const auto mark = mark_of(inputs[i].source().fd(), name);
    if (mark) {
      fields.emplace_back(which + "bytes", std::to_string(mark->bytes));
      fields.emplace_back(which + "modified", mark->modified);
      fields.emplace_back(which + "first and last 64 KiB", mark->ends);
    } else if (twice) {
      return mark.error();
    }
  }
  return fields;
}

Result<std::string> checkpoint_digest(const Checkpoint& checkpoint) {
  std::string all;
  for (const char* name : {"rl_agent_config.json", "encoder/config.json"}) {
    const auto file = File::open(checkpoint.directory() + "/" + name);
    if (!file) {
      return file.error();
    }
    const auto text = file->text(kMostConfig);
    if (!text) {
      return text.error();
    }
    all += digest_of(*text);
  }
  std::string piece(kPiece, '\0');
  for (std::size_t i = 0; i < checkpoint.size(); ++i) {
    fmt::format_to(std::back_inserter(all), "{} {} [{}]", checkpoint.name(i), to_string(checkpoint.dtype(i)),
                   fmt::join(checkpoint.shape(i), ","));
    const std::size_t bytes = elements(checkpoint.shape(i)) * size_of(checkpoint.dtype(i));
    for (std::size_t at = 0; at < bytes; at += kPiece) {
      const std::size_t count = std::min(kPiece, bytes - at);
      if (auto read = checkpoint.read(i, at, std::as_writable_bytes(std::span(piece).first(count))); !read) {
        return std::move(read).error();
      }
      all += digest_of(std::string_view(piece).substr(0, count));
    }
  }
  return digest_of(all);
}

std::string precisions(const Fleet& fleet) {
  return joined(fleet, ", ", [](const FleetDevice& device) { return kime::name_of(device.precision); });
}

JobFields fleet_fields(const Fleet& fleet) {
  return {{"precision", precisions(fleet)},
          {std::string(kClasses), joined(fleet, kAnd, [](const FleetDevice& device) { return device.bits_class; })}};
}

bool of_several_classes(const JobFields& job) {
  return std::ranges::any_of(job,
                             [](const auto& field) { return field.first == kClasses && field.second.find(kAnd) != std::string::npos; });
}

JobFields option_fields(const ScoreOptions& options, const IntakeOptions& intake, std::size_t models, const std::optional<Shard>& shard) {
  std::string buckets;
  for (const Bucket& bucket : intake.lines.buckets) {
    fmt::format_to(std::back_inserter(buckets), "{} {} {}\n", bucket.tokens, bucket.seqs, bucket.markers);
  }
  const Shard part = shard.value_or(Shard());
  JobFields fields{{"arithmetic number", std::to_string(kArithmetic)},
                   {"--emit", std::string(name_of(options.emit))},
                   {"--on-error", std::string(name_of(options.on_error))},
                   {"--keep", intake.lines.records.keep ? "given" : "not given"},
                   {"--max-line", std::to_string(intake.lines.max_line)},
                   {"--stage", intake.lines.stage},
                   {"--buckets, digest", digest_of(buckets)},
                   {"--shard", fmt::format("{}/{}", part.index, part.count)}};
  if (models > 1) {
    fields.emplace_back("--ensemble", options.ensemble == Ensemble::mean ? "mean" : "logits");
  }
  return fields;
}

}  // namespace kime
