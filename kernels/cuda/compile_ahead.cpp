#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "kernels/cuda/cubin_cache.h"
#include "kernels/cuda/jit.h"
#include "kernels/cuda/worker_process.h"

namespace attnlab {
namespace {

// Returns the code of a job; jobs with the same code, compiled once, may differ in their launch.
std::string code_of(const CompileJob& job) {
  std::string text = job.arch + "\n" + job.unit.name + "\n";
  for (const std::string& option : job.unit.options) text += option + "\n";
  return text + job.unit.source;
}

class Batch {
 public:
  using Done = std::function<void(const Compilation&)>;

  Batch(std::span<const CompileJob> jobs, const Done& done)
      : jobs_(jobs), done_(done), results_(jobs.size()) {
    for (std::size_t i = 0; i < jobs.size(); ++i) same_code_[code_of(jobs[i])].push_back(i);
  }

  // Jobs that the cache has are done at once; the rest waits for a worker.
  void find_compiled() {
    for (const auto& [code, same] : same_code_) {
      std::optional<cuda::Compiled> found =
          cuda::find_compiled(jobs_[same[0]].unit, jobs_[same[0]].arch);
      if (found) {
        finish(same[0], std::move(found->compilation));
      } else {
        waiting_.push_back(same[0]);
      }
    }
    std::sort(waiting_.begin(), waiting_.end());
  }

  std::size_t num_waiting() const { return waiting_.size(); }

  void run(std::size_t num_workers) {
    if (!waiting_.empty()) cuda::CubinCache().make_folder();  // one error, not one of each job
    workers_.resize(num_workers);
    for (Worker& worker : workers_) hand_out(worker);
    while (wait()) {
    }
  }

  std::vector<Compilation> take() { return std::move(results_); }

 private:
  struct Worker {
    std::unique_ptr<cuda::WorkerProcess> process;
    std::size_t job = 0;
    bool is_at_work = false;
  };

  void hand_out(Worker& worker) {
    worker.is_at_work = !waiting_.empty();
    if (!worker.is_at_work) return;
    worker.job = waiting_.front();
    waiting_.pop_front();
    if (worker.process == nullptr) worker.process = std::make_unique<cuda::WorkerProcess>();
    worker.process->send(jobs_[worker.job]);
  }

  // Takes what has come in the meantime; false when nobody is at work any more.
  bool wait() {
    std::vector<Worker*> busy;
    std::vector<pollfd> polled;
    for (Worker& worker : workers_) {
      if (!worker.is_at_work) continue;
      busy.push_back(&worker);
      polled.push_back({.fd = worker.process->descriptor(), .events = POLLIN, .revents = 0});
    }
    if (busy.empty()) return false;
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "waiting for the compiler");
    }
    for (std::size_t i = 0; i < busy.size(); ++i) {
      if (polled[i].revents != 0) take_result(*busy[i]);
    }
    return true;
  }

  void take_result(Worker& worker) {
    std::optional<Compilation> result = worker.process->receive();
    if (!result) {
      const cuda::WorkerProcess::End end = worker.process->end();
      worker.process.reset();
      result = {.unit = jobs_[worker.job].unit.name, .arch = jobs_[worker.job].arch};
      result->error = "the process that compiled it " + end.words;
      if (end.was_interrupted) drop_waiting();
    }
    finish(worker.job, std::move(*result));
    hand_out(worker);
  }

  void drop_waiting() {
    for (const std::size_t job : std::exchange(waiting_, {})) {
      finish(job, {.unit = jobs_[job].unit.name, .arch = jobs_[job].arch, .error = "interrupted"});
    }
  }

  // Hands out the result of a job, also to all others with its code.
  void finish(std::size_t job, Compilation result) {
    for (const std::size_t same : same_code_.at(code_of(jobs_[job]))) {
      results_[same] = result;
      if (same != job) {
        std::optional<cuda::Compiled> found =
            cuda::find_compiled(jobs_[same].unit, jobs_[same].arch);
        if (found) results_[same] = std::move(found->compilation);
      }
      done_(results_[same]);
    }
  }

  std::span<const CompileJob> jobs_;
  const Done& done_;
  std::vector<Compilation> results_;
  std::map<std::string, std::vector<std::size_t>> same_code_;
  std::deque<std::size_t> waiting_;
  std::vector<Worker> workers_;
};

}  // namespace

std::vector<Compilation> compile_ahead(std::span<const CompileJob> jobs, int workers,
                                       const std::function<void(const Compilation&)>& done) {
  Batch batch(jobs, done);
  batch.find_compiled();
  batch.run(std::min(batch.num_waiting(), static_cast<std::size_t>(std::max(workers, 1))));
  return batch.take();
}

}  // namespace attnlab
