#include "kime/io/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "kime/base/descriptor.h"
#include "kime/base/same_file.h"
#include "kime/io/digest.h"
#include "kime/io/file_lock.h"

namespace kime {
namespace {

constexpr std::size_t kMostJournal = std::size_t{16} << 20;

// The file of that name; nothing where there is none, or it cannot be told.
std::optional<struct stat> file_at(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? std::optional(info) : std::nullopt;
}

// What a link leads to, there or not, so that the link stays. A circle of links stays as it is, and cannot be opened.
std::string without_links(const std::string& path) {
  std::filesystem::path at = path;
  std::error_code error;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(at, error); ++links) {
    const auto to = std::filesystem::read_symlink(at, error);
    if (error) {
      break;
    }
    at = at.parent_path() / to;  // an absolute one stands for itself
  }
  return at.string();
}

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

Result<std::string> read_small(int fd, const std::string& path) {
  std::string text;
  std::array<char, 4096> block{};
  for (;;) {
    const ssize_t count = ::read(fd, block.data(), block.size());
    if (count == 0) {
      return text;
    }
    if (count < 0 && errno != EINTR) {
      return system_error(path, errno);
    }
    text.append(block.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (text.size() > kMostJournal) {
      return Error(ErrorKind::input, fmt::format("{}: is no journal of kime's: it has more than {} bytes", path, kMostJournal));
    }
  }
}

Status write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno != EINTR) {
      return system_error(path, errno);
    }
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  return {};
}

}  // namespace

OutputFile::OutputFile(OutputFile&& other) noexcept
    : options_(std::move(other.options_)),
      partial_(std::move(other.partial_)),
      finished_(other.finished_),
      made_partial_(std::exchange(other.made_partial_, false)),
      found_(std::move(other.found_)),
      journal_(std::move(other.journal_)) {
}

OutputFile::~OutputFile() {
  if (made_partial_) {
    ::unlink(partial_path().c_str());
  }
}

Result<OutputFile> OutputFile::open(OutputFileOptions options, std::span<const int> inputs) {
  options.path = without_links(options.path);
  OutputFile file(std::move(options));
  for (const auto step : {+[](OutputFile&f, std::span<const int> in) { return f.check_not_input(in); },
                          +[](OutputFile&f, std::span<const int>) { return f.check_target(); },
                          +[](OutputFile&f, std::span<const int>) { return f.lock_partial(); },
                          +[](OutputFile&f, std::span<const int>) { return f.find_job(); }}) {
    if (auto done = step(file, inputs); !done) {
      return std::move(done).error();
    }
  }
  return file;
}

Status OutputFile::check_not_input(std::span<const int> inputs) const {
  for (const std::string& path : {options_.path, partial_path(), journal_path()}) {
    const auto there = file_at(path);
    for (const int input : inputs) {
      struct stat info = {};
      if (there && ::fstat(input, &info) == 0 && same_file(*there, info)) {
        return Error(ErrorKind::input, fmt::format("{}: is one of the inputs, and would be written over", path));
      }
    }
  }
  return {};
}

Status OutputFile::check_target() const {
  const auto there = file_at(options_.path);
  if (!there) {
    return {};
  }
  if (!S_ISREG(there->st_mode)) {
    return Error(ErrorKind::input, fmt::format("{}: is {}; an output is a regular file", options_.path,
                                               S_ISDIR(there->st_mode) ? "a folder" : "a device or a pipe"));
  }
  if (!options_.resume && !options_.force) {
    return there_already("");
  }
  // Another job may be about to remove its journal.
  const Descriptor fd(::open(options_.path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd.get() < 0 ? Status() : check_unlocked(fd.get(), options_.path);
}

Error OutputFile::there_already(std::string_view why) const {
  return {ErrorKind::input, fmt::format("{}: is there already{}; --force replaces it", options_.path, why)};
}

// Until the lock is had on the file that has the name: its owner may give it another in between, or remove it.
Status OutputFile::lock_partial() {
  const std::string path = partial_path();
  for (;;) {
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const bool made = fd >= 0;
    if (!made && errno == EEXIST) {
      fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    }
    struct stat info = {};
    if (fd < 0 && errno == ENOENT && !made && file_at(folder_of(path))) {
      continue;
    }
    if (fd < 0) {
      return system_error(path, errno);
    }
    partial_ = Descriptor(fd);
    if (::fstat(fd, &info) != 0) {
      return system_error(path, errno);
    }
    if (!S_ISREG(info.st_mode)) {
      return Error(ErrorKind::input, fmt::format("{}: is no regular file", path));
    }
    const auto locked = lock_file(fd, path);
    if (!locked) {
      return locked.error();
    }
    if (*locked) {
      if (const auto there = file_at(path); there && same_file(*there, info)) {
        made_partial_ = made;
        return {};
      }
    } else if (auto free = check_unlocked(fd, options_.path); !free) {
      return free;
    }
    partial_ = Descriptor();
  }
}

Status OutputFile::find_job() {
  struct stat partial = {};
  if (::fstat(partial_.get(), &partial) != 0) {
    return system_error(partial_path(), errno);
  }
  const Descriptor fd(::open(journal_path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0 && errno != ENOENT) {
    return system_error(journal_path(), errno);
  }
  const bool begun = fd.get() >= 0 || partial.st_size > 0;
  if (!options_.resume) {
    return options_.force || !begun ? Status()
                                    : Error(ErrorKind::input, fmt::format("{}: holds a job that did not end; --resume goes on with it, "
                                                                          "--force begins anew",
                                                                          partial_path()));
  }
  const auto target = file_at(options_.path);
  if (fd.get() < 0) {
    if (begun) {
      return Error(ErrorKind::input, fmt::format("{}: cannot go on: {} is missing, which says how far it has come; --force without "
                                                 "--resume begins anew",
                                                 partial_path(), journal_path()));
    }
    return target && !options_.force ? Status(there_already(", and there is nothing to go on with")) : Status();
  }
  const auto text = read_small(fd.get(), journal_path());
  if (!text) {
    return text.error();
  }
  auto journal = parse_journal(*text, journal_path());
  if (!journal) {
    return std::move(journal).error();
  }
  // Killed after the output got its name, and before the journal was removed.
  finished_ =
      target && journal->state.complete && partial.st_size == 0 && static_cast<std::uint64_t>(target->st_size) == journal->state.output;
  if (target && !finished_ && !journal->replaces && !options_.force) {
    return there_already(", beside a job that did not end and may not replace it");
  }
  if (auto sound = finished_ ? Status() : check_partial(*journal, static_cast<std::uint64_t>(partial.st_size)); !sound) {
    return sound;
  }
  found_ = *std::move(journal);
  return {};
}

Status OutputFile::check_partial(const Journal& journal, std::uint64_t bytes) const {
  if (bytes < journal.state.output) {
    return Error(ErrorKind::input, fmt::format("{}: has {} bytes, but {} speaks of {}: it is not what the job wrote", partial_path(), bytes,
                                               journal_path(), journal.state.output));
  }
  const auto tail = digest_before(partial_.get(), journal.state.output, partial_path());
  if (!tail) {
    return tail.error();
  }
  if (*tail != journal.tail) {
    return Error(ErrorKind::input, fmt::format("{}: before byte {} it is not what {} speaks of: it has been changed", partial_path(),
                                               journal.state.output, journal_path()));
  }
  return {};
}

Status OutputFile::set_job(JobFields job) {
  if (found_) {
    if (const std::string other = differences(found_->job, job); !other.empty()) {
      return Error(ErrorKind::input, fmt::format("{}: cannot go on as another job than it was begun as:\n{}(--force without --resume "
                                                 "begins anew)",
                                                 options_.path, other));
    }
    journal_ = *found_;
  }
  journal_.job = std::move(job);
  journal_.kime = options_.kime;
  journal_.replaces = journal_.replaces || options_.force;
  return {};
}

Status OutputFile::start() {
  if (finished_) {
    return {};
  }
  auto tail = digest_before(partial_.get(), journal_.state.output, partial_path());
  if (!tail) {
    return std::move(tail).error();
  }
  journal_.tail = *std::move(tail);
  made_partial_ = false;
  // Before the partial output changes: what is cut off is then past any journal's place.
  if (auto written = write_journal(); !written) {
    return written;
  }
  const auto end = static_cast<off_t>(journal_.state.output);
  if (::ftruncate(partial_.get(), end) != 0 || ::lseek(partial_.get(), end, SEEK_SET) < 0) {
    return system_error(partial_path(), errno);
  }
  return {};
}

Status OutputFile::save(const JobState& state) {
  if (::fdatasync(partial_.get()) != 0) {
    return system_error(partial_path(), errno);
  }
  auto tail = digest_before(partial_.get(), state.output, partial_path());
  if (!tail) {
    return std::move(tail).error();
  }
  journal_.state = state;
  journal_.tail = *std::move(tail);
  return write_journal();
}

Status OutputFile::write_journal() {
  const std::string draft = journal_draft();
  ::unlink(draft.c_str());
  Status done;
  {
    const Descriptor fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    done = fd.get() < 0 ? system_error(draft, errno) : write_all(fd.get(), to_text(journal_), draft);
    if (done && ::fsync(fd.get()) != 0) {
      done = system_error(draft, errno);
    }
  }
  if (done && std::rename(draft.c_str(), journal_path().c_str()) != 0) {
    done = system_error(journal_path(), errno);
  }
  if (!done) {
    ::unlink(draft.c_str());
    return done;
  }
  return sync_folder();
}

Status OutputFile::sync_folder() const {
  const std::string folder = folder_of(options_.path);
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || (::fsync(fd.get()) != 0 && errno != EINVAL)) {  // some file systems have nothing to sync there
    return system_error(folder, errno);
  }
  return {};
}

Status OutputFile::finish(const JobState& state) {
  if (finished_) {
    ::unlink(partial_path().c_str());
    made_partial_ = false;
  } else {
    JobState complete = state;
    complete.complete = true;
    if (auto saved = save(complete); !saved) {
      return saved;
    }
    if (auto named = give_name(); !named) {
      return named;
    }
    if (auto synced = sync_folder(); !synced) {
      return synced;
    }
  }
  ::unlink(journal_draft().c_str());
  if (::unlink(journal_path().c_str()) != 0) {
    return system_error(journal_path(), errno);
  }
  return sync_folder();
}

Status OutputFile::give_name() const {
  const std::string partial = partial_path();
  const std::string& path = options_.path;
  if (!journal_.replaces) {
    if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) {
      return {};
    }
    const int error = errno;
    if (error == EEXIST || file_at(path)) {
      return Error(ErrorKind::input, fmt::format("{}: has come to be there while the job ran; its output is whole in {}, and --resume "
                                                 "--force puts that in its place",
                                                 path, partial));
    }
    if (error != EINVAL && error != ENOSYS) {
      return system_error(path, error);
    }
  }
  return std::rename(partial.c_str(), path.c_str()) == 0 ? Status() : Status(system_error(path, errno));
}

}  // namespace kime
