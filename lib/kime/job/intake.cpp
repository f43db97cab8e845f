#include "kime/job/intake.h"

#include <algorithm>
#include <utility>

#include "kime/io/digest.h"
#include "kime/io/json_text.h"

namespace kime {

Intake::Intake(IntakeOptions options) : options_(std::move(options)), pool_(std::make_unique<ParsePool>(options_.lines, options_.threads)) {
}

Result<Intake> Intake::open(IntakeOptions options) {
  if (options.files.empty()) {
    options.files.emplace_back("-");
  }
  Intake intake(std::move(options));
  auto readers = open_all(intake.options_.files, intake.options_.lines.max_line, intake.options_.wake_fd);
  if (!readers) {
    return std::move(readers).error();
  }
  intake.readers_ = *std::move(readers);
  intake.end_ = intake.readers_.size();
  if (intake.readers_.size() > 1) {
    intake.names_.resize(intake.readers_.size());
    for (std::size_t file = 0; file < intake.readers_.size(); ++file) {
      append_json_string(intake.names_[file], intake.readers_[file].name());
    }
  }
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
    reading_ = static_cast<std::size_t>(std::ranges::find_if(parts_, in_shard) - parts_.begin());
    end_ = parts_.size() - static_cast<std::size_t>(std::find_if(parts_.rbegin(), parts_.rend(), in_shard) - parts_.rbegin());
  }
  reading_ = place ? place->file : reading_;
  for (std::size_t file = reading_; file < end_; ++file) {
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
    const auto bytes = regular_bytes(reader.source().fd(), std::string(reader.name()));
    if (!bytes) {
      return bytes.error();
    }
    sizes.push_back(*bytes);
  }
  return file_parts(sizes, shard);
}

std::optional<double> Intake::part_read() const {
  std::uint64_t all = 0;
  std::uint64_t read = 0;
  for (std::size_t file = 0; file < parts_.size(); ++file) {
    const FilePart& part = parts_[file];
    const std::uint64_t at = file < file_ ? part.end : file > file_ ? part.begin : position_;
    all += part.end - part.begin;
    read += std::clamp(at, part.begin, part.end) - part.begin;
  }
  return all > 0 ? std::optional(static_cast<double>(read) / static_cast<double>(all)) : std::nullopt;
}

bool Intake::ready() {
  return given_ < giving_->size() || !pool_->empty() || held_ || after_ || reading_ >= end_ || readers_[reading_].ready();
}

Intake::Next Intake::next(Record& record, Where& where, std::optional<RecordError>& error) {
  if (given_ == giving_->size()) {
    giving_->clear();
    given_ = 0;
    read_ahead();
    if (!pool_->empty()) {
      pool_->pop(giving_);
    }
  }
  return give(record, where, error);
}

// What has been read, in its order: the chunk in hand, a line longer than a chunk, the end.
Intake::Next Intake::give(Record& record, Where& where, std::optional<RecordError>& error) {
  if (given_ < giving_->size()) {
    auto& entry = (*giving_)[given_++];
    std::swap(record, entry.record);
    error = std::move(entry.error);
    where = entry.where;
    file_ = where.after.file;
    position_ = entry.position;
    return Next::record;
  }
  if (held_) {
    error = pool_->parser().parse(held_->line.text, false, record);
    where = held_->where;
    file_ = where.after.file;
    position_ = held_->position;
    held_.reset();
    return Next::record;
  }
  const Next next = *after_;
  if (next == Next::stopped) {
    after_.reset();  // the next call goes on
  } else if (next == Next::end) {
    file_ = end_;
  }
  return next;
}

void Intake::read_ahead() {
  while (!pool_->full()) {
    while (have_line() && filling_->holds(held_->line.text.size())) {
      filling_->add(held_->line.text, held_->line.too_long, held_->where, held_->position);
      held_.reset();
    }
    if (filling_->empty()) {  // there is none for now, or one that is longer than a chunk
      return;
    }
    pool_->push(filling_);
  }
}

// Whether a line is held; it is waited for only where there is nothing to give before it.
bool Intake::have_line() {
  if (held_ || after_) {
    return held_.has_value();
  }
  const bool may_wait = filling_->empty() && pool_->empty();
  if (!may_wait && reading_ < end_ && !readers_[reading_].ready()) {
    return false;
  }
  Found found;
  const Next next = read_line(found);
  if (next == Next::record) {
    held_ = found;
  } else {
    after_ = next;
  }
  return held_.has_value();
}

Intake::Next Intake::read_line(Found& found) {
  for (; reading_ < end_; ++reading_) {
    const auto got = readers_[reading_].next(found.line);
    if (!got) {
      failure_ = got.error();
      return Next::broken;
    }
    if (*got == LineReader::Next::stopped) {
      return Next::stopped;
    }
    if (*got == LineReader::Next::line) {
      found.where = {
          .line = found.line.number, .file = names_.empty() ? std::string_view() : names_[reading_], .after = {reading_, found.line.after}};
      found.position = readers_[reading_].file_position();
      return Next::record;
    }
  }
  return Next::end;
}

}  // namespace kime
