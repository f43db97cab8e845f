#include "kime/backend/cuda/blas_verdicts.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

namespace kime::cuda {

namespace {

constexpr std::string_view kHead = "kime products, format 1\n";
constexpr std::string_view kAlgorithm = "algorithm ";
constexpr std::string_view kNone = "none";
constexpr std::string_view kChecksum = "\nchecksum ";
constexpr std::size_t kDigits = 16;              // of a number
constexpr std::uintmax_t kMostBytes = 1U << 20;  // a file that is larger is none of these

std::uint64_t hash_of(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

std::string file_text(const std::string& key, const ProductVerdict& verdict) {
  std::string text = fmt::format("{}{}\n{}", kHead, key, kAlgorithm);
  if (verdict.algo) {
    for (const std::uint64_t word : verdict.algo->data) {
      fmt::format_to(std::back_inserter(text), "{:016x}", word);
    }
  } else {
    text += kNone;
  }
  return fmt::format("{}{}{:016x}\n", text, kChecksum, hash_of(text));
}

// What a file of this key says, if it is in order: then it is what would be written for what it says.
std::optional<ProductVerdict> parse(const std::string& text, const std::string& key) {
  const std::size_t begin = kHead.size() + key.size() + 1 + kAlgorithm.size();
  ProductVerdict verdict;
  if (text.size() > begin + kDigits * BlasAlgo().data.size()) {
    verdict.algo.emplace();
    const char* at = text.data() + begin;
    for (std::uint64_t& word : verdict.algo->data) {
      std::from_chars(at, at + kDigits, word, 16);
      at += kDigits;
    }
  }
  return text == file_text(key, verdict) ? std::optional(verdict) : std::nullopt;
}

}  // namespace

ProductVerdicts::ProductVerdicts(std::string folder, std::function<void(const std::string&)> notice)
    : folder_(std::move(folder)), notice_(std::move(notice)) {
}

Result<ProductVerdict> ProductVerdicts::get(const std::string& key, const Usable& usable, const Make& make) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    auto& known = entries_[key];
    if (!known) {
      known = std::make_shared<Entry>();
    }
    entry = known;
  }
  const std::lock_guard lock(entry->mutex);
  if (entry->verdict) {
    return *entry->verdict;
  }
  std::string path;
  if (!folder_.empty()) {
    path = (std::filesystem::path(folder_) / fmt::format("{:016x}.kimep", hash_of(key))).string();
    auto stored = from_file(path, key, usable);
    if (!stored) {
      return std::move(stored).error();
    }
    if (*stored) {
      entry->verdict = **stored;
      const std::lock_guard counting(mutex_);
      ++counts_.read;
      return *entry->verdict;
    }
  }
  auto made = make();
  if (!made) {
    return made;
  }
  entry->verdict = *made;
  {
    const std::lock_guard counting(mutex_);
    ++counts_.made;
  }
  if (!path.empty()) {
    to_file(path, key, *made);
  }
  return made;
}

// No value where there is no file, or none that is good.
Result<std::optional<ProductVerdict>> ProductVerdicts::from_file(const std::string& path, const std::string& key, const Usable& usable) {
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status)) {
    return std::optional<ProductVerdict>();
  }
  // A pipe in its place must not hold up the run.
  if (!std::filesystem::is_regular_file(status) || std::filesystem::file_size(path, failed) > kMostBytes || failed) {
    say(path, "it is no file of verified products");
    return std::optional<ProductVerdict>();
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto verdict = parse(text, key);
  if (!verdict) {
    say(path, "it is damaged, or of other products; they are verified anew");
    return verdict;
  }
  const auto good = usable(*verdict);
  if (!good) {
    return good.error();
  }
  if (!*good) {
    say(path, "its algorithm is not taken any more; products are verified anew");
    return std::optional<ProductVerdict>();
  }
  return verdict;
}

// Under another name first, then under its own.
void ProductVerdicts::to_file(const std::string& path, const std::string& key, const ProductVerdict& verdict) {
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  const std::string part = fmt::format("{}.{}.part", path, ::getpid());
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << file_text(key, verdict);
  file.close();
  if (!file) {
    failed = std::make_error_code(std::errc::io_error);
  } else {
    std::filesystem::rename(part, path, failed);
  }
  if (failed) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    say(path, "it cannot be written");
    return;
  }
  const std::lock_guard counting(mutex_);
  ++counts_.stored;
}

void ProductVerdicts::say(const std::string& path, const std::string& what) {
  if (notice_) {
    notice_(fmt::format("cache: {}: {}", path, what));
  }
}

ProductVerdicts::Counts ProductVerdicts::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace kime::cuda
