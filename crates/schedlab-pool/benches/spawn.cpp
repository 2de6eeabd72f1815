// What a job costs with Taskflow or oneTBB: nanoseconds a job, one line for each line of input `CASE JOBS`.
// Built twice, with -DTASKFLOW or -DONETBB. Graphs are built and run in the measured time, as the pool's are.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

static constexpr int WORKERS = 2;
static constexpr std::size_t WIDTH = 16;

/// What each job waits for.
static std::vector<std::size_t> before(const std::string &shape, std::size_t job) {
    if (shape == "tree") return job == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{(job - 1) / 2};
    std::vector<std::size_t> all;
    if (job < WIDTH) return all;
    const std::size_t column = job % WIDTH, above = job - WIDTH;
    if (column > 0) all.push_back(above - 1);
    all.push_back(above);
    if (column + 1 < WIDTH) all.push_back(above + 1);
    return all;
}

#ifdef TASKFLOW
#include <taskflow/taskflow.hpp>

struct Peer {
    tf::Executor executor{WORKERS};

    void independent(std::size_t jobs, std::atomic<std::size_t> &done) {
        for (std::size_t job = 0; job < jobs; job++)
            executor.silent_async([&done] { done.fetch_add(1, std::memory_order_relaxed); });
        executor.wait_for_all();
    }

    void graph(const std::string &shape, std::size_t jobs, std::atomic<std::size_t> &done) {
        tf::Taskflow flow;
        std::vector<tf::Task> tasks;
        tasks.reserve(jobs);
        for (std::size_t job = 0; job < jobs; job++) {
            tasks.push_back(flow.emplace([&done] { done.fetch_add(1, std::memory_order_relaxed); }));
            for (const std::size_t from : before(shape, job)) tasks[from].precede(tasks[job]);
        }
        executor.run(flow).wait();
    }
};
#else
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

struct Peer {
    // One more than workers: the posting thread counts. No place of the arena is kept for it.
    oneapi::tbb::global_control limit{oneapi::tbb::global_control::max_allowed_parallelism, WORKERS + 1};
    oneapi::tbb::task_arena arena{WORKERS, 0};

    void independent(std::size_t jobs, std::atomic<std::size_t> &done) {
        for (std::size_t job = 0; job < jobs; job++)
            arena.enqueue([&done] { done.fetch_add(1, std::memory_order_relaxed); });
        while (done.load() < jobs) std::this_thread::yield();
    }

    void graph(const std::string &shape, std::size_t jobs, std::atomic<std::size_t> &done) {
        using namespace oneapi::tbb::flow;
        arena.execute([&] {
            oneapi::tbb::flow::graph flow;
            using Node = continue_node<continue_msg>;
            std::vector<std::unique_ptr<Node>> nodes;
            nodes.reserve(jobs);
            std::vector<std::size_t> first;
            for (std::size_t job = 0; job < jobs; job++) {
                nodes.push_back(std::make_unique<Node>(flow, [&done](const continue_msg &) {
                    done.fetch_add(1, std::memory_order_relaxed);
                }));
                const auto all = before(shape, job);
                if (all.empty()) first.push_back(job);
                for (const std::size_t from : all) make_edge(*nodes[from], *nodes[job]);
            }
            for (const std::size_t job : first) nodes[job]->try_put(continue_msg());
            flow.wait_for_all();
        });
    }
};
#endif

int main() {
    Peer peer;
    std::string shape;
    std::size_t jobs = 0;
    while (std::cin >> shape >> jobs) {
        std::atomic<std::size_t> done{0};
        const auto begun = std::chrono::steady_clock::now();
        if (shape == "independent") peer.independent(jobs, done);
        else peer.graph(shape, jobs, done);
        const auto took = std::chrono::steady_clock::now() - begun;
        if (done.load() != jobs) return 1;
        const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
        std::cout << double(ns) / double(jobs) << std::endl;
    }
}
