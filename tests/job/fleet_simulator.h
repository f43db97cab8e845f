// A fleet of devices under a virtual clock: the reader's window, packer and ring as a run has them, the dispatch policy under test, and
// devices that only take time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <queue>
#include <random>
#include <vector>

#include "kime/batch/bucket.h"
#include "kime/job/dispatch_policy.h"
#include "kime/job/in_flight.h"
#include "kime/job/window.h"

namespace fleet {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Device {
  double fixed = 0;      ///< Seconds a batch.
  double per_token = 0;  ///< Seconds.
  std::size_t target = 512;
  std::size_t workers = 1;  ///< Each as fast as this says.
  double changes_at = kNever;
  double change = 1;  ///< How many times as long a batch takes from then on.
  double retires_at = kNever;
  double fails = 0;  ///< The share of batches that fail after their time.
};

struct Run {
  std::vector<Device> devices;
  std::vector<std::uint32_t> lengths;  ///< Tokens of each record.
  double noise = 0;                    ///< A batch takes 1 +- this as long, uniformly.
  double arrival = 0;                  ///< Seconds from one record's arrival to the next; 0: all are there.
  std::uint32_t seed = 1;
};

struct Result {
  bool complete = false;            ///< Every record was released, in order.
  double end = 0;                   ///< When the last was.
  double idle_tail = 0;             ///< From when the first worker had its last batch done, of those not retired.
  double slowest_record = 0;        ///< The longest that a record would have taken alone where it ran.
  double longest_batch = 0;         ///< Seconds.
  std::size_t largest_units = 0;    ///< Units of the largest batch.
  std::size_t left = 0;             ///< How often a free worker left what waits to others.
  std::vector<std::size_t> tokens;  ///< Scored, by device.
  std::vector<double> measured;     ///< Tokens per second, by device, as the policy sees them.
};

/// When the devices, all of them busy from the first moment to the last, would be done: the total work over the total speed. A device
/// pays its fixed cost once for each `target` tokens, or once for a record that is longer, and nothing is paid for filling the pipeline,
/// for records that cannot be divided, or for learning the speeds. Only batches over their targets can be a little faster.
inline double ideal(const Run& run) {
  std::vector<double> all(run.devices.size());  // seconds for everything, by device
  for (std::size_t d = 0; d < all.size(); ++d) {
    const Device& device = run.devices[d];
    for (const std::uint32_t length : run.lengths) {
      const double batches = static_cast<double>(length) / static_cast<double>(std::max<std::size_t>(length, device.target));
      all[d] += (device.fixed * batches + device.per_token * length) / static_cast<double>(device.workers);
    }
  }
  std::vector<double> times{kNever};
  for (const Device& device : run.devices) {
    times.push_back(device.changes_at);
    times.push_back(device.retires_at);
  }
  std::sort(times.begin(), times.end());
  double left = 1;  // of the work
  double now = 0;
  for (const double until : times) {
    double speed = 0;
    for (std::size_t d = 0; d < all.size(); ++d) {
      const Device& device = run.devices[d];
      speed += now >= device.retires_at ? 0 : 1 / (all[d] * (now >= device.changes_at ? device.change : 1));
    }
    if (until == kNever || left <= speed * (until - now)) {
      return now + left / speed;
    }
    left -= speed * (until - now);
    now = until;
  }
  return kNever;
}

class Simulator {
 public:
  explicit Simulator(const Run& run)
      : run_(run),
        workers_(make_workers(run)),
        policy_(specs(workers_)),
        random_(run.seed),
        ring_(kRecords * ways(), kBytes * ways()),
        window_(workers_.size()) {
    result_.tokens.resize(run.devices.size());
    for (std::size_t d = 0; d < run.devices.size(); ++d) {
      if (run.devices[d].retires_at != kNever) {
        events_.push({run.devices[d].retires_at, Event::retire, d, 0});
      }
    }
  }

  Result run() {
    for (;;) {
      read();
      offer();
      if (events_.empty() || released_ == run_.lengths.size()) {
        break;
      }
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      switch (event.kind) {
        case Event::batch_ends:
          end_batch(event.which, event.batch);
          break;
        case Event::retire:
          retire(event.which);
          break;
        case Event::arrival:
          reader_waits_ = false;
          break;
      }
    }
    result_.complete = released_ == run_.lengths.size() && in_order_;
    result_.end = now_;
    double first_idle = now_;
    for (const Worker& worker : workers_) {
      first_idle = worker.retired ? first_idle : std::min(first_idle, worker.last);
    }
    result_.idle_tail = now_ - first_idle;
    for (std::size_t d = 0; d < run_.devices.size(); ++d) {
      result_.measured.push_back(policy_.speed(d));
    }
    return std::move(result_);
  }

 private:
  // The bounds of a run's ring, for each worker.
  static constexpr std::size_t kRecords = 1024;
  static constexpr std::size_t kBytes = std::size_t{2} << 20;
  using Unit = std::vector<std::uint64_t>;  // numbers of records
  struct Worker {
    std::size_t device = 0;
    bool retired = false;
    std::uint64_t batch = 0;  // the number of its batch; 0: idle
    std::vector<Unit> units;
    double last = 0;
  };
  struct Event {
    enum Kind { batch_ends, retire, arrival };
    double time;
    Kind kind;
    std::size_t which;
    std::uint64_t batch;
    bool operator<(const Event& other) const { return time > other.time; }  // the earliest is on top
  };

  static std::vector<Worker> make_workers(const Run& run) {
    std::vector<Worker> workers;
    for (std::size_t d = 0; d < run.devices.size(); ++d) {
      for (std::size_t i = 0; i < run.devices[d].workers; ++i) {
        workers.emplace_back().device = d;
      }
    }
    return workers;
  }
  [[nodiscard]] std::vector<kime::WorkerSpec> specs(const std::vector<Worker>& workers) const {
    std::vector<kime::WorkerSpec> all;
    for (const Worker& worker : workers) {
      all.push_back({worker.device, run_.devices[worker.device].target});
    }
    return all;
  }

  [[nodiscard]] std::size_t tokens(const Unit& unit) const {
    std::size_t sum = 0;
    for (const auto number : unit) {
      sum += run_.lengths[number];
    }
    return sum;
  }
  [[nodiscard]] double seconds(const Device& device, std::size_t tokens) const {
    return (device.fixed + static_cast<double>(tokens) * device.per_token) * (now_ >= device.changes_at ? device.change : 1);
  }

  // As the reader of a run: what is held is packed when it is enough, or when nothing more can be read now. Once the ring is full the
  // reader waits until an eighth of it is free, since a window for each record that is released would make tiny units.
  void read() {
    ring_full_ = ring_full_ && (read_ - released_ > kRecords / 8 * 7 * ways() || weight_ > kBytes / 8 * 7 * ways());
    while (read_ < run_.lengths.size() && !ring_full_ && arrived()) {
      std::uint64_t number = 0;
      static_cast<void>(ring_.acquire(number));
      ring_.weigh(number, weight(number));
      weight_ += weight(number);
      window_.add(number, {run_.lengths[number], 4});
      ++read_;
      ring_full_ = ring_.full();
      if (window_.full()) {
        pack();
      }
    }
    if (!window_.empty()) {
      pack();
    }
  }
  [[nodiscard]] std::size_t ways() const { return std::max<std::size_t>(2, workers_.size()); }
  [[nodiscard]] std::size_t weight(std::uint64_t number) const { return 4 * run_.lengths[number] + 400; }
  bool arrived() {
    const double time = run_.arrival * static_cast<double>(read_);
    if (time <= now_) {
      return true;
    }
    if (!reader_waits_) {
      reader_waits_ = true;
      events_.push({time, Event::arrival, 0, 0});
    }
    return false;
  }
  void pack() {
    window_.pack_all(kime::BucketTable::compiled_in().stage("compat"), [this](Unit unit) {
      waiting_ += tokens(unit);
      queue_.push_back(std::move(unit));
      return true;
    });
  }

  // Asks the free workers, until all refuse or the queue is empty.
  void offer() {
    for (bool taken = true; taken && !queue_.empty();) {
      taken = false;
      for (std::size_t w = 0; w < workers_.size() && !queue_.empty(); ++w) {
        if (workers_[w].batch == 0 && !workers_[w].retired) {
          const std::size_t want = policy_.take(w, waiting_, tokens(queue_.front()), now_);
          if (want > 0) {
            start(w, want);
            taken = true;
          } else {
            ++result_.left;
          }
        }
      }
    }
  }

  void start(std::size_t w, std::size_t want) {
    Worker& worker = workers_[w];
    const Device& device = run_.devices[worker.device];
    std::size_t sum = 0;
    while (!queue_.empty()) {
      const std::size_t more = tokens(queue_.front());
      if (!worker.units.empty() && sum + more > want) {
        break;
      }
      sum += more;
      worker.units.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    waiting_ -= sum;
    policy_.started(w, sum, now_);
    worker.batch = ++batches_;
    const double time = seconds(device, sum) * std::uniform_real_distribution<>(1 - run_.noise, 1 + run_.noise)(random_);
    result_.longest_batch = std::max(result_.longest_batch, time);
    result_.largest_units = std::max(result_.largest_units, worker.units.size());
    events_.push({now_ + time, Event::batch_ends, w, worker.batch});
  }

  void end_batch(std::size_t w, std::uint64_t batch) {
    Worker& worker = workers_[w];
    if (worker.batch != batch) {
      return;  // of a device that was retired meanwhile
    }
    const Device& device = run_.devices[worker.device];
    worker.batch = 0;
    worker.last = now_;
    if (std::uniform_real_distribution<>()(random_) < device.fails) {
      policy_.failed(w);
      give_back(worker);
      return;
    }
    policy_.finished(w, now_);
    for (const Unit& unit : worker.units) {
      for (const auto number : unit) {
        result_.tokens[worker.device] += run_.lengths[number];
        result_.slowest_record = std::max(result_.slowest_record, seconds(device, run_.lengths[number]));
      }
      ring_.done(unit);
    }
    worker.units.clear();
    const std::size_t ready = ring_.ready();
    in_order_ = in_order_ && ring_.first() == released_;
    for (std::size_t i = 0; i < ready; ++i) {
      weight_ -= weight(released_++);
    }
    ring_.release(ready);
  }

  void give_back(Worker& worker) {
    for (; !worker.units.empty(); worker.units.pop_back()) {
      waiting_ += tokens(worker.units.back());
      queue_.push_front(std::move(worker.units.back()));
    }
  }

  void retire(std::size_t device) {
    policy_.retired(device);
    for (Worker& worker : workers_) {
      if (worker.device == device) {
        worker.retired = true;
        worker.batch = 0;
        give_back(worker);
      }
    }
  }

  const Run& run_;
  std::vector<Worker> workers_;
  kime::DispatchPolicy policy_;
  std::mt19937 random_;
  kime::InFlight<char> ring_;
  kime::Window window_;
  std::deque<Unit> queue_;
  std::size_t waiting_ = 0;
  std::size_t read_ = 0;
  bool reader_waits_ = false;  // for a record to arrive
  bool ring_full_ = false;
  std::size_t weight_ = 0;  // of the records in the ring
  std::uint64_t released_ = 0;
  bool in_order_ = true;
  std::uint64_t batches_ = 0;
  double now_ = 0;
  std::priority_queue<Event> events_;
  Result result_;
};

inline Result simulate(const Run& run) {
  return Simulator(run).run();
}

}  // namespace fleet
