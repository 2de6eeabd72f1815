/* A program that writes no marks: 40 calls of work(), of which one is slow in the way that the argument says, as many
 * static probes, and 10 orders that one thread begins and another ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* As <sys/sdt.h> writes it: a probe that is skipped while nobody counts in its semaphore. */
__extension__ unsigned short app_step_semaphore __attribute__((section(".probes"), visibility("hidden"), used));
#define PROBE(name, arg) __asm__ volatile( \
  "990: nop\n" \
  ".pushsection .note.stapsdt,\"\",\"note\"\n .balign 4\n .4byte 992f-991f,994f-993f,3\n" \
  "991: .asciz \"stapsdt\"\n 992: .balign 4\n" \
  "993: .8byte 990b\n .8byte _.stapsdt.base\n .8byte app_step_semaphore\n" \
  " .asciz \"app\"\n .asciz \"" name "\"\n .asciz \"8@%0\"\n 994: .balign 4\n .popsection\n" \
  ".ifndef _.stapsdt.base\n .pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
  ".weak _.stapsdt.base\n .hidden _.stapsdt.base\n _.stapsdt.base: .space 1\n .size _.stapsdt.base,1\n .popsection\n .endif\n" \
  :: "r"((long)(arg)) : "memory")

static long now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000 + t.tv_nsec;
}
/* Runs for this long on a CPU, however often it is displaced. */
static void spin(long us) {
  long until = now(CLOCK_THREAD_CPUTIME_ID) + us * 1000;
  while (now(CLOCK_THREAD_CPUTIME_ID) < until);
}
static void nap(long ms) {
  struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
  nanosleep(&t, NULL);
}
static void on_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

/* A task that takes the CPU from the caller, each time that it gets a byte. */
static int hog(void) {
  int ends[2];
  struct sched_param high = { .sched_priority = 20 };
  if (pipe(ends)) exit(9);
  if (!fork()) {
    char byte;
    sched_setscheduler(0, SCHED_FIFO, &high);
    close(ends[1]);
    while (read(ends[0], &byte, 1) == 1) spin(60000);
    exit(0);
  }
  return ends[1];
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int is_held;
static void *hold(void *none) {
  pthread_mutex_lock(&lock);
  is_held = 1;
  spin(60000);
  pthread_mutex_unlock(&lock);
  return none;
}

/* Without a name once the program is stripped. */
__attribute__((noinline)) static void hidden(long id) { __asm__ volatile("" :: "r"(id)); }

__attribute__((noinline)) void work(const char *how, int tell) {
  spin(200);
  if (!strcmp(how, "sleep")) nap(60);
  if (!strcmp(how, "spin")) spin(60000);
  if (!strcmp(how, "hog") && write(tell, "x", 1) == 1) spin(200);
  if (!strcmp(how, "lock")) {
    pthread_t holder;
    pthread_create(&holder, 0, hold, 0);
    while (!is_held) nap(1);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    pthread_join(holder, 0);
  }
  if (!strcmp(how, "exit")) _exit(3);
}
__attribute__((noinline)) void order_begin(long id) { __asm__ volatile("" :: "r"(id)); }
__attribute__((noinline)) void order_end(long id) { __asm__ volatile("" :: "r"(id)); }
static void *ender(void *id) {
  nap(id == (void *)7 ? 60 : 2);
  order_end((long)id);
  return 0;
}

int main(int count, char **all) {
  const char *how = count > 1 ? all[1] : "";
  int tell = -1;
  if (!strcmp(how, "hog")) {
    on_cpu(0);
    tell = hog();
  }
  /* Until it is killed, about. */
  long steps = strcmp(how, "long") ? 40 : 100000;
  for (long i = 0; i < steps; i++) {
    work(i == 20 ? how : "", tell);
    hidden(i);
    if (app_step_semaphore) PROBE("step__start", i);
    nap(i == 30 ? 60 : 1);
    if (app_step_semaphore) PROBE("step__done", i);
  }
  pthread_t threads[10];
  for (long i = 0; i < 10; i++) {
    order_begin(i);
    pthread_create(&threads[i], 0, ender, (void *)i);
  }
  for (int i = 0; i < 10; i++) pthread_join(threads[i], 0);
  for (int i = 0; i < 5; i++) close(dup(0));
  return 0;
}
