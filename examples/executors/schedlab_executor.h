/* The C ABI of an executor that `schedlab jobs --executor lib:FILE.so` can load.
 *
 * The library exports this one function. Job j has the successors successors[begin[j]] up to, not
 * including, successors[begin[j + 1]], and waits for waits[j] predecessors. Call perform(run, job, worker)
 * exactly once for each job, from any thread, after all its predecessors have returned; worker is a
 * number below `workers` that tells the thread. Return when all jobs have returned: 0 for success.
 */
#ifndef SCHEDLAB_EXECUTOR_H
#define SCHEDLAB_EXECUTOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*schedlab_perform)(void *run, uint32_t job, uint32_t worker);

int schedlab_execute(uint32_t workers, uint32_t jobs, const uint32_t *begin,
                     const uint32_t *successors, const uint32_t *waits, schedlab_perform perform,
                     void *run);

#ifdef __cplusplus
}
#endif

#endif
