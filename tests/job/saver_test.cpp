#include "kime/job/saver.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "kime/io/output_file.h"
#include "tests/io/temp_folder.h"

using kime::JobState;
using kime::OutputFile;
using kime::Saver;

namespace {

OutputFile started(const std::string& path) {
  auto file = OutputFile::open({.path = path, .kime = "1"}, {});
  REQUIRE(file);
  REQUIRE(file->set_job({}));
  REQUIRE(file->start());
  return *std::move(file);
}

std::string journal_of(const std::string& path) {
  std::ifstream file(path + ".journal", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Polls, since a save is on another thread and tells nobody.
template <class Check>
bool comes(const Check& check) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end) {
    if (check()) {
      return true;
    }
    std::this_thread::yield();
  }
  return false;
}

}  // namespace

TEST_CASE("a saver writes the latest state down after a while, and ends at once") {
  const TempFolder folder;
  const std::string path = folder.path("out");
  OutputFile file = started(path);
  REQUIRE(write(file.fd(), "one\ntwo\n", 8) == 8);
  {
    Saver saver(file, std::chrono::milliseconds(5));
    CHECK(saver.reached({.output = 4, .scored = 1}));
    CHECK(saver.reached({.output = 8, .scored = 2}));
    CHECK(comes([&path] { return journal_of(path).find("\"scored\":2") != std::string::npos; }));
    CHECK_FALSE(saver.failure());
  }
  Saver slow(file, std::chrono::hours(1));
  CHECK(slow.reached({.output = 8, .scored = 3}));
}

TEST_CASE("a save that fails ends the job") {
  const TempFolder folder;
  const std::string path = folder.path("out");
  OutputFile file = started(path);
  std::filesystem::remove_all(folder.path(""));  // there is no folder to write a journal into
  Saver saver(file, std::chrono::milliseconds(5));
  CHECK(comes([&saver] { return !saver.reached({.output = 0, .scored = 1}); }));
  REQUIRE(saver.failure());
  CHECK(saver.failure()->message() == path + ".journal.new: No such file or directory");
}
