#include "kime/job/intake.h"

#include <algorithm>
#include <utility>

#include "kime/io/digest.h"

namespace kime {

Result<Intake> Intake::open(IntakeOptions options) {
  if (options.files.empty()) {
    options.files.emplace_back("-");
  }
  Intake intake(std::move(options));
  for (const auto& file : intake.options_.files) {
    auto reader = LineReader::open(file, intake.options_.max_line, intake.options_.wake_fd);
    if (!reader) {
      return std::move(reader).error();
    }
    intake.readers_.push_back(*std::move(reader));
  }
  intake.end_ = intake.readers_.size();
  if (auto parts = intake.shard_parts({})) {
    intake.parts_ = *std::move(parts);
  }
  return intake;
}

Result<bool> Intake::begin(const std::optional<Shard>& shard, const std::optional<InputPlace>& place) {
  if (shard) {
    auto found = shard_parts(*shard);
    if (!found) {
      return std::move(found).error();
    }
    parts_ = *std::move(found);
    const auto in_shard = [](const FilePart& part) { return part.begin < part.end; };
    current_ = static_cast<std::size_t>(std::ranges::find_if(parts_, in_shard) - parts_.begin());
    end_ = parts_.size() - static_cast<std::size_t>(std::find_if(parts_.rbegin(), parts_.rend(), in_shard) - parts_.rbegin());
  }
  current_ = place ? place->file : current_;
  for (std::size_t file = current_; file < end_; ++file) {
    const auto known = place && place->file == file ? std::optional(place->place) : std::nullopt;
    std::optional<LineRange> range = LineRange{.begin = known.value_or(LinePlace())};
    if (shard && parts_[file].end - parts_[file].begin < parts_[file].size) {
      auto found = lines_of(readers_[file].source(), parts_[file], known);
      if (!found) {
        return std::move(found).error();
      }
      range = *found;
    } else if (!known) {
      continue;
    }
    if (!range) {
      return false;
    }
    const auto kept = readers_[file].keep_to(*range);
    if (!kept) {
      return kept.error();
    }
    if (*kept == LineReader::Next::stopped) {
      return false;
    }
  }
  return true;
}

Result<std::vector<FilePart>> Intake::shard_parts(Shard shard) const {
  std::vector<std::uint64_t> sizes;
  for (const LineReader& reader : readers_) {
    const auto mark = mark_of(reader.source().fd(), std::string(reader.name()));
    if (!mark) {
      return mark.error();
    }
    sizes.push_back(mark->bytes);
  }
  return file_parts(sizes, shard);
}

std::optional<double> Intake::part_read() const {
  std::uint64_t all = 0;
  std::uint64_t read = 0;
  for (std::size_t file = 0; file < parts_.size(); ++file) {
    const FilePart& part = parts_[file];
    const std::uint64_t at = file < current_ ? part.end : file > current_ ? part.begin : readers_[file].file_position();
    all += part.end - part.begin;
    read += std::clamp(at, part.begin, part.end) - part.begin;
  }
  return all > 0 ? std::optional(static_cast<double>(read) / static_cast<double>(all)) : std::nullopt;
}

bool Intake::ready() {
  return current_ >= end_ || readers_[current_].ready();
}

Intake::Next Intake::next(Record& record, Where& where, std::optional<RecordError>& error) {
  Line line;
  for (;;) {
    if (failure_) {
      return Next::broken;
    }
    if (current_ >= end_) {
      return Next::end;
    }
    auto got = readers_[current_].next(line);
    if (!got) {
      failure_ = std::move(got).error();
      continue;
    }
    if (*got == LineReader::Next::stopped) {
      return Next::stopped;
    }
    if (*got == LineReader::Next::line) {
      break;
    }
    ++current_;
  }
  where.line = line.number;
  where.after = {current_, line.after};
  where.file = readers_.size() > 1 ? readers_[current_].name() : std::string_view();
  if (line.too_long) {
    record = {};
    record.id = "null";  // nothing of the line was kept
    error = too_long_error(options_.max_line);
    return Next::record;
  }
  error = parser_.parse(line.text, record);
  if (!error && find_bucket(options_.buckets, record.ids.size(), 1, record.markers.size()) == nullptr) {
    error = record_error(no_bucket(options_.stage, record.ids.size(), 1, record.markers.size()));
  }
  return Next::record;
}

}  // namespace kime
