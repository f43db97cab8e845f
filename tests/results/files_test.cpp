#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kime/results/report_file.h"
#include "kime/results/spill_file.h"
#include "tests/io/temp_folder.h"

using kime::ReportFile;
using kime::SpillFile;

namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t files_in(const TempFolder& folder) {
  const std::filesystem::directory_iterator files(folder.path(""));
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

// TMPDIR for as long as this lives.
class TmpDir {
 public:
  explicit TmpDir(const std::string& folder) {
    const char* before = std::getenv("TMPDIR");
    before_ = before == nullptr ? "" : before;
    ::setenv("TMPDIR", folder.c_str(), 1);
  }
  TmpDir(const TmpDir&) = delete;
  TmpDir& operator=(const TmpDir&) = delete;
  ~TmpDir() {
    if (before_.empty()) {
      ::unsetenv("TMPDIR");
    } else {
      ::setenv("TMPDIR", before_.c_str(), 1);
    }
  }

 private:
  std::string before_;
};

}  // namespace

TEST_CASE("a spill file gives back what it took, from the buffer and from the file") {
  const TempFolder folder;
  const TmpDir tmp(folder.path(""));
  SpillFile file;
  std::string all;
  std::vector<std::uint64_t> offsets;
  for (int i = 0; i < 5000; ++i) {
    const std::string piece(static_cast<std::size_t>(i % 200), static_cast<char>('a' + i % 26));
    const auto offset = file.append(piece);
    REQUIRE(offset);
    CHECK(*offset == all.size());
    offsets.push_back(*offset);
    all += piece;
  }
  CHECK(file.size() == all.size());
  CHECK(files_in(folder) == 0);  // it has no name
  for (std::size_t i = 0; i + 3 < offsets.size(); ++i) {
    std::string piece(offsets[i + 3] - offsets[i], '\0');
    REQUIRE(file.read(offsets[i], piece));
    CHECK(piece == all.substr(offsets[i], piece.size()));
  }
  std::string whole(all.size(), '\0');
  REQUIRE(file.read(0, whole));
  CHECK(whole == all);
}

TEST_CASE("a spill file that cannot be made says where") {
  const TmpDir tmp("/does/not/exist");
  SpillFile file;
  REQUIRE(file.append("small"));  // no file is needed yet
  const auto failed = file.append(std::string(1 << 20, 'x'));
  REQUIRE_FALSE(failed);
  CHECK(failed.error().text() == "/does/not/exist: cannot make a temporary file: No such file or directory (TMPDIR names another folder)");
}

TEST_CASE("a spill file without room says so") {
  const TempFolder folder;
  const TmpDir tmp(folder.path(""));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1 << 16, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  SpillFile file;
  const auto failed = file.append(std::string(1 << 20, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().text().find("cannot write a temporary file: File too large") != std::string::npos);
}

TEST_CASE("an output is there whole or not at all") {
  const TempFolder folder;
  const auto path = folder.write("page", "before");
  {
    auto file = ReportFile::open(path, {});
    REQUIRE(file);
    CHECK(content_of(path) == "before");
    CHECK(files_in(folder) == 2);
  }
  CHECK(content_of(path) == "before");  // nothing came of it
  CHECK(files_in(folder) == 1);
  auto file = ReportFile::open(path, {});
  REQUIRE(file);
  REQUIRE(file->finish("after"));
  CHECK(content_of(path) == "after");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("an output replaces what a link names") {
  const TempFolder folder;
  const auto path = folder.write("page", "before");
  std::filesystem::create_symlink(path, folder.path("link"));
  auto file = ReportFile::open(folder.path("link"), {});
  REQUIRE(file);
  REQUIRE(file->finish("after"));
  CHECK(std::filesystem::is_symlink(folder.path("link")));
  CHECK(content_of(path) == "after");
}

TEST_CASE("outputs that cannot be") {
  const TempFolder folder;
  const std::vector<std::string> inputs{folder.write("scores", "x")};
  std::filesystem::create_symlink(inputs[0], folder.path("link"));
  for (const std::string& path : {inputs[0], folder.path("link")}) {
    const auto same = ReportFile::open(path, inputs);
    REQUIRE_FALSE(same);
    CHECK(same.error().text() == path + ": is also an input");
  }
  CHECK_FALSE(ReportFile::open(folder.path("no/page"), inputs));
  CHECK_FALSE(ReportFile::open(folder.path(""), inputs));
  auto full = ReportFile::open("/dev/full", inputs);
  REQUIRE(full);
  const auto failed = full->finish("text");
  REQUIRE_FALSE(failed);
  CHECK(failed.error().text() == "/dev/full: No space left on device");
}
