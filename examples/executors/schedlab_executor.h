/* The C ABI of an executor that `schedlab jobs --executor lib:FILE.so` can load, version 2 (docs/executors.md).
 *
 * The library exports three functions; SCHEDLAB_EXECUTOR, written once in it, defines the first.
 *
 * schedlab_executor_abi returns the version that the library was written for. Without it, the library has version 1,
 * which is schedlab_execute alone.
 *
 * schedlab_execute: job j has the successors successors[begin[j]] up to, not including, successors[begin[j + 1]], and
 * waits for waits[j] predecessors. Call perform(run, job, worker) exactly once for each job, from any thread, after all
 * its predecessors have returned; worker is a number below `workers` that tells the thread. Return when all jobs have
 * returned: 0 for success.
 *
 * schedlab_execute_at is the same, and job j begins no earlier than start_ns[j] on CLOCK_MONOTONIC. A library that does
 * not offer start times leaves it out.
 */
#ifndef SCHEDLAB_EXECUTOR_H
#define SCHEDLAB_EXECUTOR_H

#include <stdint.h>

#define SCHEDLAB_EXECUTOR_ABI 2

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*schedlab_perform)(void *run, uint32_t job, uint32_t worker);

uint32_t schedlab_executor_abi(void);

int schedlab_execute(uint32_t workers, uint32_t jobs, const uint32_t *begin,
                     const uint32_t *successors, const uint32_t *waits, schedlab_perform perform,
                     void *run);

int schedlab_execute_at(uint32_t workers, uint32_t jobs, const uint32_t *begin,
                        const uint32_t *successors, const uint32_t *waits, const uint64_t *start_ns,
                        schedlab_perform perform, void *run);

#define SCHEDLAB_EXECUTOR \
    uint32_t schedlab_executor_abi(void) { return SCHEDLAB_EXECUTOR_ABI; }

#ifdef __cplusplus
}
#endif

#endif
