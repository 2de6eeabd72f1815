// schedlab's job pool for C++17: lambdas as jobs, futures for their values. A layer over schedlab_jobs.h.
//
// An exception of a job ends in its future and never crosses the C interface. Jobs that depend on that job are dropped.
#ifndef SCHEDLAB_JOBS_HPP
#define SCHEDLAB_JOBS_HPP

#include "schedlab_jobs.h"

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace schedlab {

using nanoseconds = std::chrono::nanoseconds;

// Why a job was not posted, or has no value: SCHEDLAB_FULL and the like, or SCHEDLAB_STATE_...
class job_error : public std::runtime_error {
public:
  job_error(const char *what, int code) : std::runtime_error(what), code_(code) {}
  int code() const { return code_; }

private:
  int code_;
};

namespace detail {
// A time of C, in which 0 means none for deadlines: one before the pool's start is `least`.
inline uint64_t ns(nanoseconds time, uint64_t least = 0) {
  return time.count() > 0 ? static_cast<uint64_t>(time.count()) : least;
}

template <class T> struct state {
  std::optional<T> value;
  std::exception_ptr thrown;
  template <class F> void run(F &f) { value.emplace(f()); }
  T take() { return std::move(*value); }
};
template <> struct state<void> {
  std::exception_ptr thrown;
  template <class F> void run(F &f) { f(); }
  void take() {}
};

template <class F, class T> struct job {
  F function;
  std::shared_ptr<state<T>> result;
  static int run(void *data, schedlab_context *) {
    auto *self = static_cast<job *>(data);
    try {
      self->result->run(self->function);
      return SCHEDLAB_DONE;
    } catch (...) {
      self->result->thrown = std::current_exception();
      return SCHEDLAB_FAILED;
    }
  }
  static void drop(void *data) { delete static_cast<job *>(data); }
};
} // namespace detail

// The value that a job will have. Destroying a future detaches the job.
template <class T> class future {
public:
  future() = default;
  future(future &&) = default;
  future &operator=(future &&) = default;
  void wait() const { schedlab_handle_wait(handle_.get(), UINT64_MAX); }
  bool wait_for(nanoseconds patience) const {
    return schedlab_handle_wait(handle_.get(), detail::ns(patience)) == SCHEDLAB_OK;
  }
  bool cancel() const { return schedlab_handle_cancel(handle_.get()) != 0; }
  int state() const { return schedlab_handle_state(handle_.get()); }
  // Waits for the value, once. Throws what the job threw, or job_error where it did not run.
  T get() {
    wait();
    if (result_->thrown) std::rethrow_exception(result_->thrown);
    int ended = state();
    if (ended != SCHEDLAB_STATE_DONE) throw job_error("the job did not run", ended);
    return result_->take();
  }
  schedlab_handle *handle() const { return handle_.get(); }

private:
  friend class pool;
  friend class request;
  std::shared_ptr<schedlab_handle> handle_;
  std::shared_ptr<detail::state<T>> result_;
};

// What a job asks for, in times of the pool.
class request {
public:
  request &start(nanoseconds at) { return posting_.start_ns = detail::ns(at), *this; }
  request &deadline(nanoseconds at) { return posting_.deadline_ns = detail::ns(at, 1), *this; }
  request &latest_start(nanoseconds at) { return posting_.latest_start_ns = detail::ns(at, 1), *this; }
  request &expected(nanoseconds time) { return posting_.expected_ns = detail::ns(time), *this; }
  request &criticality(uint16_t value) { return posting_.criticality = value, *this; }
  request &stream(uint16_t value) { return posting_.stream = value, *this; }
  template <class T> request &after(const future<T> &before) { return after_.push_back(before.handle_), *this; }

private:
  friend class pool;
  schedlab_posting posting_{};
  // Shared, so that a request may outlive the futures that it names.
  std::vector<std::shared_ptr<schedlab_handle>> after_;
};

// A running pool. Its destructor cancels what has not started and waits for what runs.
class pool {
public:
  explicit pool(uint32_t workers = 0) {
    schedlab_pool_options options{};
    options.workers = workers;
    open(options);
  }
  explicit pool(const schedlab_pool_options &options) { open(options); }
  pool(const pool &) = delete;
  pool &operator=(const pool &) = delete;
  ~pool() { schedlab_pool_stop(pool_, UINT64_MAX, nullptr); }

  nanoseconds now() const { return nanoseconds(schedlab_pool_now(pool_)); }
  bool wait_for(nanoseconds patience) const {
    return schedlab_pool_wait(pool_, detail::ns(patience)) == SCHEDLAB_OK;
  }
  void wait() const { schedlab_pool_wait(pool_, UINT64_MAX); }
  schedlab_counts counts() const {
    schedlab_counts counts{};
    counts.size = sizeof counts;
    schedlab_pool_counts(pool_, &counts);
    return counts;
  }
  schedlab_pool *get() const { return pool_; }

  // Posts a job. Throws job_error with SCHEDLAB_FULL or SCHEDLAB_CLOSED where it is not taken.
  template <class F, class T = std::invoke_result_t<F &>> future<T> spawn(F function, const request &asks = {}) const {
    using job = detail::job<F, T>;
    future<T> result;
    result.result_ = std::make_shared<detail::state<T>>();
    auto data = std::make_unique<job>(job{std::move(function), result.result_});
    schedlab_posting posting = asks.posting_;
    posting.size = sizeof posting;
    posting.run = job::run;
    posting.drop = job::drop;
    posting.data = data.get();
    std::vector<schedlab_handle *> after;
    for (const auto &before : asks.after_) after.push_back(before.get());
    schedlab_handle *handle = nullptr;
    int code = schedlab_post(pool_, &posting, after.data(), after.size(), &handle);
    if (code != SCHEDLAB_OK) throw job_error("the job was not taken", code);
    data.release();
    result.handle_ = {handle, schedlab_handle_release};
    return result;
  }

private:
  void open(schedlab_pool_options options) {
    options.size = sizeof options;
    pool_ = schedlab_pool_start(&options);
    if (!pool_) throw job_error("the pool cannot start", SCHEDLAB_INVALID);
  }
  schedlab_pool *pool_ = nullptr;
};

} // namespace schedlab

#endif
