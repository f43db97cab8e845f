// What a disk holds for sure of an output's files, so that a test can take the power away: all that was not synced is then lost.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Hears of the calls that change OUT.partial, OUT.journal and OUT, before or after they are made. Of a rename or an unlink it is sure once
/// the folder was synced, of the bytes of a file once the file was.
class LostPower {
 public:
  explicit LostPower(std::string out) : out_(std::move(out)) {}

  void wrote(std::string_view path) {
    if (path == out_ + ".journal.new") {
      draft_synced_ = false;
    }
  }
  void truncated(std::string_view path, off_t size) {
    if (path == out_ + ".partial") {
      partial_size_ = partial_size_ ? std::min(*partial_size_, size) : size;
    }
  }
  /// `size`: of the file before the sync, which has succeeded.
  void synced(std::string_view path, off_t size) {
    if (path == out_ + ".partial") {
      partial_size_ = size;
    } else if (path == out_ + ".journal.new") {
      draft_synced_ = true;
    } else if (path == std::filesystem::path(out_).parent_path().string()) {
      undo_.clear();
    }
  }
  void renames(const std::string& from, const std::string& to) {
    undo_.push_back([from, to, old = content(to)] {
      std::filesystem::rename(to, from);
      put_back(to, old);
    });
    journal_synced_ = from != out_ + ".journal.new" || draft_synced_;
  }
  void unlinks(const std::string& path) {
    undo_.push_back([path, old = content(path)] { put_back(path, old); });
  }

  /// Makes the files what they would be.
  void lose() {
    if (!journal_synced_) {
      std::filesystem::resize_file(out_ + ".journal", 0);
    }
    std::for_each(undo_.rbegin(), undo_.rend(), [](const auto& step) { step(); });
    struct stat info = {};
    const std::string partial = out_ + ".partial";
    if (partial_size_ && ::stat(partial.c_str(), &info) == 0 && info.st_size > *partial_size_) {
      std::filesystem::resize_file(partial, static_cast<std::uintmax_t>(*partial_size_));
    }
  }

  std::recursive_mutex mutex;  ///< Held over a call and the word of it.

 private:
  static std::optional<std::string> content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return file ? std::optional(std::string(std::istreambuf_iterator<char>(file), {})) : std::nullopt;
  }
  static void put_back(const std::string& path, const std::optional<std::string>& old) {
    if (old) {
      std::ofstream(path, std::ios::binary) << *old;
    }
  }

  std::string out_;
  std::optional<off_t> partial_size_;
  bool draft_synced_ = false;
  bool journal_synced_ = true;
  std::vector<std::function<void()>> undo_;  ///< Of what was done to names since the folder was synced.
};
