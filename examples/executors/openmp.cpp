// OpenMP tasks under schedlab's rig: a task for each job, made when the last of its predecessors has ended.
//
//   g++ -O2 -std=c++17 -shared -fPIC -fopenmp -o libopenmp.so openmp.cpp
//   schedlab jobs compare --executor schedlab,lib:./libopenmp.so --shape fork-join
//
// A worker is a thread of the team, so --record can tell where each was. A task has no start time, so
// schedlab_execute_at is left out.

#include "schedlab_executor.h"

#include <atomic>
#include <omp.h>
#include <vector>

SCHEDLAB_EXECUTOR

namespace {

struct Graph {
    const uint32_t *begin, *successors;
    std::vector<std::atomic<uint32_t>> left;
    schedlab_perform perform;
    void *run;
};

void start(Graph *graph, uint32_t job) {
#pragma omp task firstprivate(graph, job)
    {
        graph->perform(graph->run, job, static_cast<uint32_t>(omp_get_thread_num()));
        for (uint32_t at = graph->begin[job]; at < graph->begin[job + 1]; at++) {
            uint32_t next = graph->successors[at];
            if (graph->left[next].fetch_sub(1) == 1) start(graph, next);
        }
    }
}

} // namespace

int schedlab_execute(uint32_t workers, uint32_t jobs, const uint32_t *begin,
                     const uint32_t *successors, const uint32_t *waits, schedlab_perform perform,
                     void *run) {
    Graph graph{begin, successors, std::vector<std::atomic<uint32_t>>(jobs), perform, run};
    for (uint32_t job = 0; job < jobs; job++) graph.left[job] = waits[job];
    // The end of the region waits for all tasks.
#pragma omp parallel num_threads(static_cast<int>(workers))
#pragma omp single
    for (uint32_t job = 0; job < jobs; job++)
        if (waits[job] == 0) start(&graph, job);
    return 0;
}
