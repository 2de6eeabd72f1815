// A holder of a mutex whose control group runs out of its quota, while others wait for the mutex. It prints the holder's
// number, and how long the waiters waited while the group was throttled: their number times what the kernel counted.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WAITERS = 3, PERIOD_US = 50000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int held, waiting;

static void run_for(long ns) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    long end = time.tv_sec * 1000000000L + time.tv_nsec + ns;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    while (time.tv_sec * 1000000000L + time.tv_nsec < end);
}

// What the kernel counted, in nanoseconds, by the file of either version of control groups.
static long throttled(const char *stat) {
    FILE *file = fopen(stat, "r");
    char name[64];
    long value, found = -1;
    while (file && fscanf(file, "%63s %ld", name, &value) == 2) {
        if (!strcmp(name, "throttled_time")) found = value;
        if (!strcmp(name, "throttled_usec")) found = value * 1000;
    }
    if (!file || found < 0) {
        perror(stat);
        exit(1);
    }
    fclose(file);
    return found;
}

static void *waits(void *nothing) {
    while (!atomic_load(&held)) usleep(1000);
    atomic_fetch_add(&waiting, 1);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return nothing;
}

int main(int count, char **words) {
    if (count < 2) return 2;
    // An idle CPU of some machines does not log switches. Each thread inherits this.
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    if (sched_setaffinity(0, sizeof set, &set)) return perror("CPU 0"), 1;
    pthread_t threads[WAITERS];
    for (int one = 0; one < WAITERS; one++) pthread_create(&threads[one], NULL, waits, NULL);
    // Through some periods, so that the budget is known.
    run_for(30000000L);
    usleep(2 * PERIOD_US);
    pthread_mutex_lock(&mutex);
    atomic_store(&held, 1);
    while (atomic_load(&waiting) < WAITERS) usleep(1000);
    // All of them wait, and the budget is whole, before the time counts.
    usleep(2 * PERIOD_US);
    long before = throttled(words[1]);
    run_for(45000000L);
    long cost = (throttled(words[1]) - before) * WAITERS;
    pthread_mutex_unlock(&mutex);
    for (int one = 0; one < WAITERS; one++) pthread_join(threads[one], NULL);
    printf("%ld %ld\n", syscall(SYS_gettid), cost);
    return 0;
}
