// The crew: helper threads that join a run while fewer runs are active than the backend has threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

namespace kime::cpu {

/// `threads` - 1 helpers, parked in the kernel while there is nothing to do (after a job they look for another for some tens of
/// microseconds first, since the next op follows at once). Callers bring their own thread. May be used from several threads at once:
/// a helper works for one caller at a time, and a caller that finds none free does all by itself.
class Crew {
 public:
  /// Errors: none. When the system gives fewer threads, there are fewer helpers.
  explicit Crew(std::size_t threads);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  /// Joins the helpers. No parallel() may be running.
  ~Crew();

  /// Calls fn(chunk, worker) once for each chunk of [0, chunks), on the calling thread (worker 0) and up to width - 1 helpers (workers
  /// below width), and returns when all are done. No two calls at a time share a worker number. Allocates nothing. fn must not throw.
  template <class Fn>
  void parallel(std::size_t width, std::size_t chunks, const Fn& fn) const {
    if (width <= 1 || chunks <= 1 || helpers_ == 0) {
      for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        fn(chunk, std::size_t{0});
      }
      return;
    }
    Job job;
    job.call = [](const void* context, std::size_t chunk, std::size_t worker) { (*static_cast<const Fn*>(context))(chunk, worker); };
    job.context = &fn;
    job.chunks = chunks;
    share(job, width < chunks ? width : chunks);
  }

 private:
  // Lives on the caller's stack: share() returns only when no helper holds it.
  struct Job {
    void (*call)(const void* context, std::size_t chunk, std::size_t worker) = nullptr;
    const void* context = nullptr;
    std::size_t chunks = 0;
    std::atomic<std::size_t> next{0};  ///< The first chunk that nobody has taken.
  };
  // idle -> claimed -> posted -> running -> done -> idle. The helper makes two of the steps, to running and to done, and its claimer the
  // rest, so that a claimer owns what stands below `state` from its claim to its release.
  enum State : std::uint32_t { idle, claimed, posted, running, done, stopped };
  struct alignas(64) Helper {
    std::atomic<std::uint32_t> state{idle};
    Job* job = nullptr;
    std::size_t worker = 0;
    Helper* next = nullptr;  ///< The next helper of the same job.
    std::thread thread;
  };

  void share(Job& job, std::size_t width) const;
  static void work(Job& job, std::size_t worker);
  static void help(Helper& helper);

  std::unique_ptr<Helper[]> crew_;
  std::size_t helpers_ = 0;
};

}  // namespace kime::cpu
