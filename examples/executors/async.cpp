// std::async under schedlab's rig: a task per job that is due, at most `workers` at once.
//
//   g++ -O2 -std=c++17 -shared -fPIC -pthread -o libasync.so async.cpp
//   schedlab jobs compare --executor schedlab,lib:./libasync.so --shape fork-join

#include "schedlab_executor.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <queue>
#include <utility>
#include <vector>

// On Linux, std::chrono::steady_clock is CLOCK_MONOTONIC.
using Clock = std::chrono::steady_clock;

SCHEDLAB_EXECUTOR

int schedlab_execute_at(uint32_t workers, uint32_t jobs, const uint32_t *begin,
                        const uint32_t *successors, const uint32_t *waits, const uint64_t *start_ns,
                        schedlab_perform perform, void *run) {
    auto start = [&](uint32_t job) {
        return Clock::time_point(std::chrono::nanoseconds(start_ns ? start_ns[job] : 0));
    };
    using Due = std::pair<Clock::time_point, uint32_t>;
    std::priority_queue<Due, std::vector<Due>, std::greater<Due>> ready;
    std::mutex mutex;
    std::condition_variable change;
    std::vector<uint32_t> left(waits, waits + jobs);
    uint32_t ended = 0;
    for (uint32_t job = 0; job < jobs; job++)
        if (left[job] == 0) ready.emplace(start(job), job);

    std::vector<uint32_t> free;
    for (uint32_t worker = 0; worker < workers; worker++) free.push_back(worker);
    std::vector<std::future<void>> slots(workers);

    std::unique_lock<std::mutex> lock(mutex);
    while (ended < jobs) {
        if (ready.empty() || free.empty()) {
            change.wait(lock);
            continue;
        }
        auto [due, job] = ready.top();
        if (due > Clock::now()) {
            change.wait_until(lock, due);
            continue;
        }
        uint32_t worker = free.back();
        ready.pop();
        free.pop_back();
        lock.unlock();
        // The task that had this slot has reported its end; its future is waited for here.
        slots[worker] = std::async(std::launch::async, [&, job = job, worker] {
            perform(run, job, worker);
            std::lock_guard<std::mutex> guard(mutex);
            for (uint32_t at = begin[job]; at < begin[job + 1]; at++) {
                uint32_t next = successors[at];
                if (--left[next] == 0) ready.emplace(start(next), next);
            }
            free.push_back(worker);
            ended++;
            change.notify_one();
        });
        lock.lock();
    }
    lock.unlock();
    for (auto &slot : slots)
        if (slot.valid()) slot.wait();
    return 0;
}

int schedlab_execute(uint32_t workers, uint32_t jobs, const uint32_t *begin,
                     const uint32_t *successors, const uint32_t *waits, schedlab_perform perform,
                     void *run) {
    return schedlab_execute_at(workers, jobs, begin, successors, waits, nullptr, perform, run);
}
