#include "kime/io/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

using kime::Output;
using kime::OutputState;

namespace {

struct PipeEnds {
  PipeEnds() { REQUIRE(pipe(ends.data()) == 0); }
  PipeEnds(const PipeEnds&) = delete;
  PipeEnds& operator=(const PipeEnds&) = delete;
  ~PipeEnds() {
    for (const int end : ends) {
      if (end >= 0) {
        close(end);
      }
    }
  }
  void close_reader() {
    close(ends[0]);
    ends[0] = -1;
  }
  std::array<int, 2> ends{};
};

}  // namespace

TEST_CASE("lines are held until a flush, and large amounts are written on the way") {
  PipeEnds pipe;
  Output output(pipe.ends[1], "out");
  CHECK(output.append("one\n") == OutputState::ok);
  CHECK(output.append("two\n") == OutputState::ok);
  CHECK(output.held() == 8);
  CHECK(output.flush() == OutputState::ok);
  CHECK(output.held() == 0);
  std::array<char, 100> text{};
  REQUIRE(read(pipe.ends[0], text.data(), text.size()) == 8);
  CHECK(std::string(text.data(), 8) == "one\ntwo\n");
  CHECK(output.flush() == OutputState::ok);
}

TEST_CASE("a slow reader gets every byte, also from a descriptor that does not block") {
  PipeEnds pipe;
  const bool blocking = GENERATE(true, false);
  if (!blocking) {
    REQUIRE(fcntl(pipe.ends[1], F_SETFL, O_NONBLOCK) == 0);
  }
  std::string sent;
  for (int i = 0; i < 60000; ++i) {
    sent += "line " + std::to_string(i) + "\n";
  }
  std::string got;
  std::thread reader([&] {
    std::array<char, 3000> piece{};
    while (got.size() < sent.size()) {
      const ssize_t count = read(pipe.ends[0], piece.data(), piece.size());
      if (count <= 0) {
        break;
      }
      got.append(piece.data(), static_cast<std::size_t>(count));
    }
  });
  Output output(pipe.ends[1], "out");
  for (std::size_t at = 0; at < sent.size(); at += 1000) {
    CHECK(output.append(std::string_view(sent).substr(at, 1000)) == OutputState::ok);
  }
  CHECK(output.flush() == OutputState::ok);
  reader.join();
  CHECK(got == sent);
}

TEST_CASE("a closed pipe and a full disk are told apart") {
  std::signal(SIGPIPE, SIG_IGN);
  PipeEnds pipe;
  pipe.close_reader();
  Output closed(pipe.ends[1], "standard output");
  CHECK(closed.append("x\n") == OutputState::ok);
  CHECK(closed.flush() == OutputState::closed);
  CHECK(closed.message() == "standard output: Broken pipe");
  CHECK(closed.append("y\n") == OutputState::closed);
  CHECK(closed.held() == 0);

  const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  Output full(fd, "scores.jsonl");
  CHECK(full.append(std::string(100000, 'x')) == OutputState::full);
  CHECK(full.message() == "scores.jsonl: No space left on device");
  CHECK(full.flush() == OutputState::full);
  close(fd);

  Output failed(-1, "out");
  CHECK(failed.append("x") == OutputState::ok);
  CHECK(failed.flush() == OutputState::failed);
  CHECK(failed.message() == "out: Bad file descriptor");
}
