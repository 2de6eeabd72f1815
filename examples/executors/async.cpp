// std::async under schedlab's rig: a task per job that became ready, at most `workers` at once.
//
//   g++ -O2 -std=c++17 -shared -fPIC -pthread -o libasync.so async.cpp
//   schedlab jobs compare --executor schedlab,lib:./libasync.so --shape fork-join

#include "schedlab_executor.h"

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <vector>

int schedlab_execute(uint32_t workers, uint32_t jobs, const uint32_t *begin,
                     const uint32_t *successors, const uint32_t *waits, schedlab_perform perform,
                     void *run) {
    std::mutex mutex;
    std::condition_variable change;
    std::vector<uint32_t> left(waits, waits + jobs);
    std::deque<uint32_t> ready;
    uint32_t ended = 0;
    for (uint32_t job = 0; job < jobs; job++)
        if (left[job] == 0) ready.push_back(job);

    std::vector<uint32_t> free;
    for (uint32_t worker = 0; worker < workers; worker++) free.push_back(worker);
    std::vector<std::future<void>> slots(workers);

    std::unique_lock<std::mutex> lock(mutex);
    while (ended < jobs) {
        change.wait(lock, [&] { return ended == jobs || (!ready.empty() && !free.empty()); });
        if (ended == jobs) break;
        uint32_t job = ready.front(), worker = free.back();
        ready.pop_front();
        free.pop_back();
        lock.unlock();
        // The task that had this slot has reported its end; its future is waited for here.
        slots[worker] = std::async(std::launch::async, [&, job, worker] {
            perform(run, job, worker);
            std::lock_guard<std::mutex> guard(mutex);
            for (uint32_t at = begin[job]; at < begin[job + 1]; at++)
                if (--left[successors[at]] == 0) ready.push_back(successors[at]);
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
